"""The exit code of a run is a function of its events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.domain.account import code_of
from prsm_core.domain.events import Event
from prsm_core.engine.outcome import Account

pytestmark = pytest.mark.requirement("U28")


def event(kind, agent="a", **data):
    return Event(type=kind, session="S", run="R", ts=1.0, agent=agent, data=data)


def gate(problem, *, folder="/work", whole=True, required=True, name="tests"):
    about = {"folder": folder, "whole": whole, "required": required, "problem": problem}
    return event("gate_finished", gate=name, **about)


def asked(request, verdict, by):
    return [
        event("permission_requested", request=request, tool="Bash", command="make"),
        event("permission_resolved", request=request, verdict=verdict, by=by),
    ]


def question(request, by):
    return [
        event("question_asked", request=request, question="which?"),
        event("question_answered", request=request, answer=None, by=by),
    ]


def merged(result, files=()):
    return event("worktree_merged", result=result, branch="b", files=list(files))


def changed(*agents):
    return event("file_changed", path="a", agents=list(agents))


def code(*events):
    account = Account()
    account.hear(events)
    return account.code_of_completed()


RED, GREEN = gate("failed with exit code 1"), gate(None)
REFUSED = asked("r", "deny", "headless")


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], 0),
        ([RED], 5),
        ([RED, GREEN], 0),
        ([GREEN, RED], 5),
        ([gate("could not run: no bash")], 5),
        ([gate("failed", required=False)], 0),
        ([RED, gate(None, name="other")], 5),
        ([gate("failed", folder="/tree", whole=False), GREEN], 0),
        ([RED, gate(None, folder="/tree", whole=False)], 5),
        ([merged("conflict", ["a"])], 5),
        ([merged("partial", ["a"])], 5),
        ([merged("kept", ["a"])], 5),
        ([merged("conflict", ["a"]), merged("merged", ["a"])], 0),
        ([merged("nothing")], 0),
        (REFUSED, 4),
        (asked("r", "deny", "unattended"), 4),
        (asked("r", "deny", "user"), 0),
        ([*REFUSED, *asked("s", "once", "user")], 0),
        ([*REFUSED, changed("a")], 0),
        ([*REFUSED, changed()], 4),
        ([*REFUSED, merged("merged", ["a"])], 0),
        ([*REFUSED, RED], 5),
        (question("q", "headless"), 0),
        ([*question("q", "headless"), *REFUSED], 4),
    ],
)
def test_the_code_of_a_run_that_has_completed(events, expected):
    assert code(*events) == expected


PIECES = st.sampled_from(
    [[RED], [GREEN], [gate("failed", required=False)], [merged("kept", ["a"])],
     [merged("merged", ["a"])], REFUSED, asked("s", "once", "user"), [changed("a")], [changed()]]
)  # fmt: skip


@given(st.lists(PIECES))
def test_a_resume_that_hears_all_again_answers_alike(pieces):
    events = [one for piece in pieces for one in piece]
    once, again = Account(), Account()
    once.hear(events)
    for one in events:
        again.hear([one])
    assert once.problems() == again.problems()
    assert once.code_of_completed() == again.code_of_completed()


@given(st.lists(PIECES))
def test_a_code_that_is_not_0_is_explained(pieces):
    account = Account()
    account.hear(one for piece in pieces for one in piece)
    kinds = {one.kind for one in account.problems()}
    why = {0: set(), 4: {"refused"}, 5: {"gate", "unmerged"}}[account.code_of_completed()]
    assert not why or why & kinds
    assert account.code_of_completed() != 0 or not {"gate", "unmerged"} & kinds


def test_an_agent_that_lives_again_and_succeeds_has_not_failed():
    account = Account()
    account.hear([event("agent_state_changed", to="failed", reason="lost")])
    assert [(one.kind, one.text) for one in account.problems()] == [("failed", "lost")]
    account.hear([event("agent_state_changed", to="starting", reason="")])
    account.hear([event("agent_state_changed", to="completed", evidence_gaps=["`x` was not run"])])
    assert [one.kind for one in account.problems()] == ["unconfirmed"]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"status": "completed", "exit_code": 5}, 5),
        ({"status": "completed"}, 0),
        ({"status": "failed"}, 1),
        ({"status": "interrupted"}, 130),
        ({"status": "failed", "exit_code": 4}, 4),
    ],
)
def test_the_code_of_a_runs_end(told, expected):
    assert code_of(told) == expected
