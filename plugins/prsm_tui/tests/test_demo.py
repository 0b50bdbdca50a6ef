"""The team of `prsm demo` on its real engine, from the prompt to the summary, by keys alone."""

from __future__ import annotations

import asyncio

import pytest

from plugins.prsm_tui.tests.scenes import engine, watching
from tests.sources import ROOT

DEADLINE = 120.0
SHOP = ROOT / "plugins" / "prsm_demo" / "prsm_demo" / "sample-shop"
TASK = "Customers who order for exactly 50.00 pay shipping. Mend it."


async def open_agent(eyes, name):
    await eyes.type(f"/open {name}\n")
    await eyes.sees(f"master / {name}")


@pytest.mark.requirement("D5")
@pytest.mark.parametrize(
    "size",
    [
        pytest.param((80, 24), id="small"),
        pytest.param((160, 48), id="large", marks=pytest.mark.long),
    ],
)
async def test_a_person_answers_injects_and_reads_the_summary(tmp_path, size):
    async with (
        asyncio.timeout(DEADLINE),
        engine(tmp_path, "builtin:demo", TASK, files=SHOP) as app,
        watching(app, size=size) as eyes,
    ):
        await eyes.sees("master", "NEEDS YOU: 1")
        await open_agent(eyes, "fixer")
        await eyes.sees("asks to use Bash: python3 -m unittest: waits for you")
        await eyes.type("Use the limit of the README.\n")
        await eyes.sees("you: Use the limit of the README.")
        await eyes.press("f2")
        await eyes.sees("master / fixer", "python3 -m unittest", "[o]nce")
        await eyes.type("o\n")
        await eyes.press("f2")
        await eyes.sees("once (by user, prsm tui)", "completed")
        await eyes.type("/open master\n")
        await eyes.sees("the run is completed", "The review agrees")
        tree = await app.agents.tree()
        states = [node.state for node in tree.agents[0].children]
        assert states == ["completed"] * 3


async def test_a_child_that_is_killed_ends_and_the_run_goes_on(tmp_path):
    async with (
        asyncio.timeout(DEADLINE),
        engine(tmp_path, "builtin:demo", TASK, files=SHOP) as app,
        watching(app, size=(120, 40)) as eyes,
    ):
        await eyes.sees("NEEDS YOU: 1")
        await open_agent(eyes, "fixer")
        await eyes.type("/kill\n")
        await eyes.sees("Kill fixer?")
        await eyes.press("y")
        await eyes.sees("killed: fixer", "- fixer")
        await eyes.until(lambda: "NEEDS YOU" not in eyes.text, "nothing waits any more")
        tree = await app.agents.tree()
        states = {node.name: node.state for node in tree.agents[0].children}
        assert states["fixer"] == "killed"
        await eyes.type("/stop\n")
        await eyes.sees("End the run as interrupted?")
        await eyes.press("y")
        await eyes.until(lambda: not eyes.session.run.is_open, "the end of the run")


async def test_the_document_shows_what_the_demo_shows(tmp_path):
    """Its pictures are taken anew by `python -m plugins.prsm_tui.tests.tour`."""
    from plugins.prsm_tui.tests.tour import DOCUMENT, alike, parts, take, written

    async with asyncio.timeout(DEADLINE):
        pictures = written(await take(tmp_path))
    _, shown, _ = parts(DOCUMENT.read_text(encoding="utf-8"))
    assert alike(shown) == alike(pictures)
