"""`prsm run --continue`: a further task for the master of a session."""

from __future__ import annotations

import json

import pytest

from tests.cli.sessions_scene import play

FIRST = {"lanes": {"master": {"steps": [{"say": "the shop is built"}]}}}
# A script goes on at its place in the same conversation; in another it would begin anew.
STEPS = [{"say": "built anew"}, {"say": "the tests are written"}]
SECOND = {"lanes": {"master": {"steps": STEPS}}}


def events_of(done):
    return [json.loads(line) for line in done.out.splitlines()]


def further(prsm_process, tmp_path, *more):
    path = tmp_path / "second.json"
    path.write_text(json.dumps(SECOND))
    return prsm_process(
        *("run", "now the tests", "--continue", "--json", "--on-ask", "allow", *more),
        *("--set", f"providers.script.scenario={path}"),
    )


@pytest.mark.requirement("E5")
@pytest.mark.parametrize("is_named", [False, True])
def test_the_master_of_a_session_gets_a_further_task(prsm, prsm_process, tmp_path, is_named):
    session, first = play(prsm_process, tmp_path, FIRST, task="build a shop", mode="bypass")
    if is_named:
        other, _ = play(prsm_process, tmp_path, FIRST, task="something else")
        assert other != session
    done = further(prsm_process, tmp_path, *(("--session", session) if is_named else ()))
    assert done.code == 0, done.err
    events = events_of(done)
    begun, ended = events[0], events[-1]
    assert (begun["type"], begun["session"], begun["task"]) == (
        "run_started",
        session,
        "now the tests",
    )
    assert begun["run"] != first[0]["run"]
    assert (ended["status"], ended["summary"]) == ("completed", "the tests are written")
    assert "agent_spawned" not in {event["type"] for event in events}
    agents = json.loads(prsm("sessions", "list", "--json").out)
    assert [row["agents"] for row in agents if row["session"] == session] == [1]


def test_a_detached_run_continues_too(prsm_process, tmp_path):
    session, _ = play(prsm_process, tmp_path, FIRST)
    done = further(prsm_process, tmp_path, "--detach")
    assert done.code == 0, done.err
    assert json.loads(done.out)["session"] == session


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--model", "x"), "--continue and --model exclude each other"),
        (("--provider", "script"), "--continue and --provider exclude each other"),
        (("--new",), "--continue and --new exclude each other"),
    ],
)
def test_what_the_master_has_already_is_not_given_again(prsm_process, tmp_path, more, why):
    done = further(prsm_process, tmp_path, *more)
    assert done.code == 2
    assert why in done.err


def test_without_a_session_there_is_nobody_to_go_on(prsm_process, tmp_path):
    done = further(prsm_process, tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "nothing was run yet" in done.err


@pytest.mark.parametrize(
    ("began", "more", "told"),
    [
        ("bypass", ("--mode", "plan"), [("bypass", "plan")]),
        ("bypass", (), []),
        ("delegate", (), []),
    ],
)
def test_the_master_keeps_its_mode_unless_another_one_is_named(
    prsm_process, tmp_path, began, more, told
):
    play(prsm_process, tmp_path, FIRST, mode=began)
    done = further(prsm_process, tmp_path, *more)
    assert done.code == 0, done.err
    changes = [event for event in events_of(done) if event["type"] == "agent_mode_changed"]
    assert [(event["from"], event["to"]) for event in changes] == told
