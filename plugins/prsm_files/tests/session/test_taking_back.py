"""A change is taken back in a quiet moment, and what PRSM writes is no change of an agent."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from prsm_files.session.deciding import Choice
from prsm_testing.fake_clock import FakeClock

from plugins.prsm_files.tests.session.hands import (
    NEEDS_GIT,
    Hand,
    folder,
    found,
    opened,
    put,
    until,
)
from plugins.prsm_files.tests.shadow_scene import every_byte
from prsm_core.domain.writes import ChangesDecided, FileChanged
from prsm_core.engine.door.local import LocalApp
from prsm_core.engine.quiet import QUIET_SECONDS
from prsm_core.errors import ConfigError, StoreError
from prsm_core.interfaces.frontend import RunOptions
from tests.engine.deaths import dies_after, dies_at, go_on, run_to_death
from tests.engine.harness import SESSION

__all__ = ["folder", "opened"]

pytestmark = NEEDS_GIT

LINES = [f"line {n}\n" for n in range(20)]


def edited(**lines):
    """Return the file `a` with lines replaced, by number."""
    text = list(LINES)
    for name, line in lines.items():
        text[int(name[1:])] = line
    return "".join(text)


async def be_dead(team):
    """Let an engine whose store is broken, or soon will be, hear of it."""
    await until(lambda: team.store.broken is not None)
    team.engine.journal.note("notice", level="info", text="which nobody hears")
    await asyncio.Event().wait()


async def first_of(changes):
    """Return the choice of the first change."""
    rows = await changes.rows()
    return Choice(ids=(rows[0].change.id,))


@pytest.mark.requirement("U6")
async def test_while_a_command_runs_that_may_write_nothing_is_taken_back_and_it_is_named(
    opened, folder
):
    clock, over, at_it = FakeClock(autojump=False), asyncio.Event(), asyncio.Event()
    refused: list[ConfigError] = []

    async def master(agent):
        hand = Hand(agent, folder)
        await hand.write("a", edited(n2="first\n"))
        async with hand.call("Bash", command="make all"):
            at_it.set()
            await over.wait()
        await agent.complete()

    async with opened(clock=clock) as team:
        run = team.start(master=master)
        await at_it.wait()
        changes = team.engine.files.watch.get()
        choice = await first_of(changes)
        before = every_byte(folder)
        rejecting = asyncio.ensure_future(changes.verdicts.reject(choice))
        await until(lambda: team.engine.quiet._holds)
        await team.settled()
        await clock.advance(QUIET_SECONDS)
        with pytest.raises(ConfigError) as caught:
            await rejecting
        refused.append(caught.value)
        assert every_byte(folder) == before
        assert [row.state for row in await changes.rows()] == ["pending"]
        over.set()
        assert (await run).status == "completed"
    assert refused[0].code == "agents_write"
    assert "an agent writes here: master: make all" in refused[0].message
    assert "prsm kill" in str(refused[0].hint)


async def test_a_call_that_has_named_other_files_keeps_nobody_from_taking_back(opened, folder):
    clock, over, at_it = FakeClock(autojump=False), asyncio.Event(), asyncio.Event()

    async def master(agent):
        hand = Hand(agent, folder)
        await hand.write("a", edited(n2="first\n"))
        async with hand.call("Write", paths=("other",)):
            at_it.set()
            await over.wait()
        await agent.complete()

    async with opened(clock=clock) as team:
        run = team.start(master=master)
        await at_it.wait()
        changes = team.engine.files.watch.get()
        rejecting = asyncio.ensure_future(changes.verdicts.reject(await first_of(changes)))
        await until(lambda: team.engine.quiet._holds)
        await team.settled()
        await clock.advance(QUIET_SECONDS)
        assert [one.state for one in (await rejecting)[0]] == ["rejected"]
        over.set()
        assert (await run).status == "completed"
    assert (folder / "a").read_text() == edited()


async def test_a_command_that_ends_soon_is_waited_for_and_the_next_one_waits(opened, folder):
    """What both write stays, and is theirs."""
    order: list[str] = []
    at_it, go = asyncio.Event(), asyncio.Event()

    async def master(agent):
        hand = Hand(agent, folder)
        await hand.write("a", edited(n2="first\n"))
        async with hand.call("Bash", command="one"):
            at_it.set()
            await go.wait()
            put(folder / "a", edited(n2="first\n", n10="one\n"))
            order.append("one")
        async with hand.call("Bash", command="two"):
            order.append("two")
            text = (folder / "a").read_text()
            put(folder / "a", text.replace("line 19\n", "two\n"))
        await agent.complete()

    async def reject(changes):
        choice = await first_of(changes)
        rejecting = asyncio.ensure_future(changes.verdicts.reject(choice))
        await until(lambda: team.engine.quiet._holds)
        go.set()
        assert [one.state for one in (await rejecting)[0]] == ["rejected"]
        order.append("rejected")

    async with opened() as team:
        run = team.start(master=master)
        await at_it.wait()
        await reject(team.engine.files.watch.get())
        assert (await run).status == "completed"
        rows = await team.engine.files.watch.get().rows()
    assert order == ["one", "rejected", "two"]
    assert (folder / "a").read_text() == edited(n10="one\n", n19="two\n")
    assert [(row.change.author.call, row.state) for row in rows] == [
        ("master-1", "rejected"),
        ("master-2", "pending"),
        ("master-3", "pending"),
    ]
    assert [(row.change.added, row.change.removed) for row in rows] == [(1, 1)] * 3


async def test_what_another_prsm_writes_while_files_are_held_is_of_no_agent(opened, folder):
    """As `prsm snapshot restore` does, or an engine in the same folder."""
    heard: list[str] = []

    async def master(agent):
        hand = Hand(agent, folder)
        await hand.write("a", "by the agent\n")
        await hand.shell(lambda: put(folder / "b", "by the agent\n"))
        held = LocalApp(team.engine, RunOptions(), team.store, SESSION).changes.hold_files()
        assert list(await anext(held)) == []
        for name in ("a", "b", "c"):
            put(folder / name, "restored\n")
        await held.aclose()
        await hand.shell(lambda: put(folder / "d", "by the agent\n"))
        outcome = await agent.outcome("report_progress", {"status": "half"})
        heard.append(outcome.text)
        await agent.complete()

    async with opened() as team:
        assert (await team.run(master=master)).status == "completed"
    told = {path: [one["how"] for one in found(team, path)] for path in ("a", "b", "c", "d")}
    assert told == {
        "a": ["named", "outside"],
        "b": ["possible", "outside"],
        "c": ["outside"],
        "d": ["possible"],
    }
    assert "- a: the user, or another program" in heard[0]


@pytest.mark.parametrize(
    "dies",
    # Each waits for as long as a command may hold it up.
    [
        pytest.param(dies_at, id="before"),
        pytest.param(dies_after, id="after", marks=pytest.mark.long),
    ],
)
@pytest.mark.requirement("D21")
async def test_a_rejection_whose_engine_dies_at_its_commit_is_finished_and_is_nobodys_change(
    opened, folder, dies
):
    """A command that ran then has its own changes, and not those that PRSM made."""
    lines = edited(n2="first\n", n10="second\n")

    async def master(agent):
        hand = Hand(agent, folder)
        await hand.write("a", edited(n2="first\n"))
        await hand.write("b", "kept\n")
        await until(lambda: found(team, "b"))
        async with hand.call("Write", paths=("other",)):
            put(folder / "a", lines)  # by a person, and not found yet
            put(folder / "other", "1\n")
            dies(team, ChangesDecided)
            changes = team.engine.files.watch.get()
            with contextlib.suppress(StoreError):
                await changes.verdicts.reject(await first_of(changes))
            await be_dead(team)

    async def mastered(agent):
        await agent.complete()

    async with opened(check=False) as team:
        await run_to_death(team, master=master)
    assert (folder / "a").read_text() == edited(n10="second\n")
    async with opened() as again:
        assert (await go_on(again, master=mastered)).status == "completed"
        rows = await again.engine.files.watch.get().rows()
    assert (folder / "a").read_text() == edited(n10="second\n")
    assert [(row.change.path, row.change.how, row.state) for row in rows] == [
        ("a", "named", "rejected"),
        ("b", "named", "pending"),
        ("a", "outside", "pending"),
        ("other", "possible", "pending"),  # what its call said is not kept over a death
    ]
    assert (rows[2].change.added, rows[2].change.removed) == (1, 1)


@pytest.mark.parametrize("dies", [dies_at, dies_after], ids=["before", "after"])
async def test_a_look_whose_engine_dies_at_its_commit_is_told_once(opened, folder, dies):
    async def master(agent):
        hand = Hand(agent, folder)
        await hand.write("a", "1\n")
        await until(lambda: found(team, "a"))
        dies(team, FileChanged)
        await hand.shell(lambda: put(folder / "b", "1\n"))
        await be_dead(team)

    async def mastered(agent):
        await Hand(agent, folder).write("c", "1\n")
        await agent.complete()

    async with opened(check=False) as team:
        await run_to_death(team, master=master)
    async with opened() as again:
        assert (await go_on(again, master=mastered)).status == "completed"
        rows = await again.engine.files.watch.get().rows()
    assert [(row.change.path, row.change.how) for row in rows] == [
        ("a", "named"),
        ("b", "possible"),
        ("c", "named"),
    ]
    assert rows[1].change.author.call == "master-2"
