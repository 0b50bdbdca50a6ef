"""A login that has expired, as a person has it who runs `prsm`: held, answered, resumed."""

from __future__ import annotations

import asyncio
import json

import pytest

from prsm_core.engine.agents.holds import TRY_AGAIN
from tests.place import DEADLINE, Place

REFUSED = {"error": {"status": 401, "message": "401 Unauthorized"}, "say": "painted"}


@pytest.fixture
async def place(tmp_path):
    """An agent that is refused once; whatever is left of it ends with the test."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    place = Place(folder)
    place.script(master=[REFUSED])
    yield place
    place.kill()


def run(place, *args):
    scripted = ("--provider", "script", "--set", f"providers.script.scenario={place.scenario}")
    return ("run", "paint", *scripted, *args)


async def seen(place, kind):
    """Return the first event of a kind, once there is one."""
    async with asyncio.timeout(DEADLINE):
        while not (found := await place.events(kind)):
            pass
    return found[0]


async def ended(place):
    async with asyncio.timeout(DEADLINE):
        await place.until_gone()
    return (await place.events("run_finished"))[-1]


@pytest.mark.requirement("U29", "U8")
async def test_a_person_logs_in_and_has_it_tried_again_from_another_terminal(place):
    code, _, err = await place.run(*run(place, "--detach"))
    assert code == 0, err
    request = (await seen(place, "question_asked"))["request"]
    _, out, _ = await place.run("tree")
    assert "master is held by a login" in out
    assert "waits for YOU" in out
    _, out, _ = await place.run("tree", "--json")
    [node] = json.loads(out)["agents"]
    assert (node["state"], node["waiting_on"]) == ("running", "a login")
    code, _, err = await place.run_in_terminal("answer", request, TRY_AGAIN)
    assert code == 0, err
    finished = await ended(place)
    assert (finished["status"], finished["summary"]) == ("completed", "painted")


@pytest.mark.requirement("U29")
@pytest.mark.parametrize("args", [("--json",), ("--detach", "--unattended", "0.3"), ()])
async def test_where_nobody_is_there_the_run_can_be_resumed(place, args):
    code, out, err = await place.run(*run(place, *args))
    finished = await ended(place)
    assert (finished["status"], finished["exit_code"]) == ("interrupted", 4)
    assert code == (0 if "--detach" in args else 4), (out, err)
    if not args:
        assert "error: master is held by a login: 401 Unauthorized" in err
        assert "go on where it was interrupted: prsm resume" in err
        assert "held" in err.split("AGENT", 1)[1]
    place.script(master=[{"say": "painted"}])
    code, out, err = await place.run("resume")
    assert (code, out) == (0, "painted\n"), err
