"""prsm replay, on ledgers of real runs of the scripted provider."""

import json
import signal

from tests.cli.sessions_scene import play

AGAIN = {"lanes": {"rest": {"marker": "", "steps": [{"say": "once more"}]}}}


def test_a_replay_tells_every_event_of_every_run_as_it_was(prsm, prsm_process, tmp_path):
    session, _ = play(prsm_process, tmp_path)
    play(prsm_process, tmp_path, AGAIN, task="once more", session=session)
    before = prsm("events", session, "--json").out
    done = prsm("replay", session, "--ui", "json")
    assert (done.code, done.err) == (0, "")
    assert done.out == before
    assert prsm("events", session, "--json").out == before


def test_the_console_draws_a_replay_as_it_drew_the_run(prsm, prsm_process, tmp_path):
    session, _ = play(prsm_process, tmp_path)
    done = prsm_process("replay", session)
    assert (done.code, done.out) == (0, "all is counted\n")
    assert "w1: I count." in done.err
    assert "w1 completed" in done.err
    ended = prsm("replay", session, "--to", "12")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err.endswith("prsm: the replay was ended at event 12 of " + last(prsm) + "\n")


def last(prsm):
    return str(json.loads(prsm("sessions", "list", "--json").out)[0]["last_seq"])


def test_an_event_that_there_is_not_is_no_end(prsm, prsm_process, tmp_path):
    session, _ = play(prsm_process, tmp_path)
    done = prsm("replay", session, "--to", "9999")
    assert (done.code, done.out) == (2, "")
    assert "has no event 9999\nhint: its last one is " in done.err


def test_the_person_leaves_a_replay_that_takes_its_time(prsm_process, start_prsm, prsm, tmp_path):
    play(prsm_process, tmp_path)
    process = start_prsm("replay", "--speed", "0.0001", "--ui", "json")
    first = json.loads(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (first["seq"], process.returncode) == (1, 130)
    assert b"prsm: the replay was left at event " in err
