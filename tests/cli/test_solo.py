"""`prsm run --solo`: one agent edits and checks, under the policy, and a resume keeps it so."""

from __future__ import annotations

import pytest

from tests.place import Place

EDIT = {"edit": {"path": "made.txt", "content": "made\n"}}
TEST = {"shell": {"id": "test", "cmd": "cat made.txt"}}
DENIED = {"shell": {"id": "denied", "cmd": "tee other.txt < made.txt"}}
ASK = {"ask_user": {"id": "x", "question": "Which?", "options": ["red"]}}
DONE = {"call": {"tool": "task_complete", "arguments": {"summary": "${test.stdout}"}}}


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "elsewhere"  # not where the tests themselves are
    folder.mkdir()
    return Place(folder)


def scripted(place, *more):
    """Return the arguments of a run that plays the script."""
    script = ("--set", f"providers.script.scenario={place.scenario}")
    return ("run", "do it", "--provider", "script", *script, *more)


@pytest.mark.requirement("U31")
@pytest.mark.parametrize("how", [("--solo",), ("--set", "engine.master=solo")])
async def test_a_small_task_takes_one_agent(place, how):
    place.script(master=[EDIT, TEST, DONE])
    code, out, err = await place.run(*scripted(place, *how))
    assert (code, out) == (0, "made\n"), err
    assert await place.states() == {"master": "completed"}


@pytest.mark.requirement("E3")
async def test_without_it_the_master_changes_nothing(place):
    place.script(master=[EDIT, DONE])
    await place.run(*scripted(place))
    assert not (place.workspace / "made.txt").exists()


@pytest.mark.requirement("U31")
async def test_a_rule_to_deny_holds_for_a_solo_master_in_every_mode(place):
    place.script(master=[EDIT, DENIED, TEST, DONE])
    rule = ("--set", "permissions.deny=[tee]", "--mode", "bypass")
    code, out, err = await place.run(*scripted(place, "--solo", *rule))
    assert (code, out) == (0, "made\n"), err
    assert not (place.workspace / "other.txt").exists()
    [denied] = await place.events("tool_call_finished", status="denied")
    assert denied["call"]


@pytest.mark.requirement("U31")
async def test_edits_of_a_solo_master_are_asked_about_where_the_run_asks(place):
    place.script(master=[EDIT, DONE])
    asks = ("--solo", "--set", "permissions.edits=ask")
    await place.run(*scripted(place, *asks))
    assert not (place.workspace / "made.txt").exists()
    [asked] = await place.events("permission_requested")
    assert asked["tool"] == "Write"


@pytest.mark.requirement("U31")
async def test_a_resume_keeps_the_master_solo(place):
    place.script(master=[ASK, EDIT, TEST, DONE])
    code, out, err = await place.run(*scripted(place, "--solo", "--detach", "--json"))
    assert code == 0, err
    while not await place.events("question_asked"):
        pass
    place.kill()
    await place.until_gone()
    code, out, err = await place.run("resume", "--on-ask", "allow")
    assert (code, out) == (0, "made\n"), err
    assert "as it was started: " in err
    assert " --solo" in err
    [master] = await place.events("agent_spawned")
    assert master["name"] == "master"


@pytest.mark.parametrize("other", [("--mode", "delegate"), ("--continue",)])
async def test_what_does_not_go_with_it_is_refused_by_name(place, other):
    code, _, err = await place.run("run", "do it", "--solo", *other)
    assert code == 2
    assert "exclude each other" in err
