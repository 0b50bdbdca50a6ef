"""`prsm tree` of another process tells what turns that run have used so far, where it can."""

import json
import os
import signal

import pytest

pytestmark = pytest.mark.usefixtures("puppets")

LIVE = "so far, turns that run included: tokens: {}, cost: $1.00\n"
CLOSED = "so far, closed turns: tokens: {}, cost: {}"


@pytest.fixture
def running(start_prsm):
    """A run whose master and worker have used 1,200 and 300 tokens, in turns that go on."""
    process = start_prsm("run", "--json", "use 1200; spawn use 300 & say used & hang; hang")
    for line in process.stdout:
        event = json.loads(line)
        if event["type"] == "message_completed" and event.get("text") == "used":
            return process
    raise AssertionError("the run has ended")


@pytest.mark.requirement("U8", "U16")
def test_the_tree_counts_what_turns_that_run_have_used(running, prsm_process):
    told = prsm_process("tree", "--json")
    tree = json.loads(told.out)
    [master] = tree["agents"]
    [worker] = master["children"]
    assert tree["is_live"]
    assert (tree["spent"]["total_tokens"], tree["spent"]["cost_usd"]) == (1500, 1.0)
    assert master["usage_self"]["total_tokens"] == 1200
    assert master["usage_subtree"]["total_tokens"] == 1500
    assert worker["usage_self"]["total_tokens"] == 300
    shown = prsm_process("tree")
    assert shown.err.endswith(LIVE.format("1,500")), shown.err
    assert "1,500" in shown.out


@pytest.mark.requirement("U8", "U16")
def test_where_nobody_tells_the_tree_says_that_it_counts_closed_turns(running, prsm_process):
    os.kill(running.pid, signal.SIGSTOP)
    try:
        stopped = prsm_process("tree")
    finally:
        os.kill(running.pid, signal.SIGCONT)
    why = f" (process {running.pid}, which runs the session, does not answer)\n"
    assert stopped.err.endswith(CLOSED.format("unknown", "unknown") + why)
    assert stopped.out.count("running") == 2
    running.kill()
    running.communicate()
    gone = prsm_process("tree")
    assert gone.err.endswith(CLOSED.format("unknown", "unknown") + "\n")
    assert not json.loads(prsm_process("tree", "--json").out)["is_live"]


def test_the_tree_of_a_run_that_has_ended_tells_all_of_it(prsm_process):
    assert prsm_process("run", "use 70; say done").code == 0
    assert prsm_process("tree").err.endswith("in all: tokens: 70, cost: $0.50\n")
