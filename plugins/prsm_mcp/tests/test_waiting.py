"""Who waits for a person is shown by the tree of a session that runs."""

from __future__ import annotations

import json
from functools import partial

import pytest

from plugins.prsm_mcp.tests.leader import CLIENT
from plugins.prsm_mcp.tests.leader import leading as led
from tests.place import Place

leading = partial(led, through=CLIENT)


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path)
    place.script(maker=[{"shell": {"id": "made", "cmd": "make it\n now"}}, {"say": "done"}])
    return place


@pytest.mark.requirement("U8", "U16")
async def test_the_tree_says_who_waits_for_you_with_what_and_since_when(place):
    async with leading(place) as leader:
        await leader.spawn("maker")
        while not await place.events("permission_requested"):
            pass
        [asked] = await place.events("permission_requested")
        _, out, _ = await place.run("tree")
        _, told, _ = await place.run("tree", "--json")
    row = next(line for line in out.splitlines() if line.startswith("  maker"))
    assert "waits for YOU" in row
    assert "maker waits for YOU since " in out
    assert "s): Bash: make it\\x0a now" in out
    assert f"  answer it: prsm answer {asked['request'][:8]}, or: prsm attach" in out
    [maker] = json.loads(told)["agents"][0]["children"]
    [waits] = maker["waits_for_user"]
    assert waits["since"] == pytest.approx(asked["ts"])
    assert {key: waits[key] for key in ("request", "kind", "tool", "command")} == {
        "request": asked["request"],
        "kind": "permission",
        "tool": "Bash",
        "command": "make it\n now",
    }


async def test_nothing_waits_in_a_session_that_has_ended(place):
    async with leading(place) as leader:
        await leader.spawn("maker")
        while not await place.events("permission_requested"):
            pass
    code, out, _ = await place.run("tree")
    assert code == 0
    assert "waits for YOU" not in out
