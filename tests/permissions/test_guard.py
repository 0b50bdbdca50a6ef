"""The guard against running the same command over and over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.permissions import outcome_of
from prsm_core.permissions.guard import (
    LOOK_SECONDS,
    MAX_RUNNING,
    MEMORY,
    BashRepeatGuard,
    Shell,
    tree_of,
)
from prsm_core.permissions.results import DENIED
from tests.command_policies import make_policy

DATA = Path(__file__).parent / "data"
ROWS = [
    json.loads(line)
    for name in ("repeat_guard_sample.jsonl", "repeat_guard_own.jsonl")
    for line in (DATA / name).read_text().splitlines()
]
HERE = "/work"
UNKNOWN = None


def shell(command, cwd=HERE, tree=None):
    return Shell(command=command, cwd=cwd, tree=tree or tree_of(cwd, HERE))


def result(text):
    """Return the outcome that a text of a history stands for."""
    if text is None or text == "denied":
        return UNKNOWN if text is None else DENIED
    return outcome_of(succeeded=True, texts=(text,), error=None)


class History:
    """A guard and a clock of its own; commands end at once unless they are begun."""

    def __init__(self):
        self.time = 0.0
        self.guard = BashRepeatGuard(make_policy(), now=lambda: self.time)

    def call(self, agent, command, told="", cwd=HERE):
        """Return whether a command is refused; otherwise it ends with a result."""
        wanted = shell(command, cwd)
        if self.guard.refusal(agent, wanted) is not None:
            return True
        if told == "denied":
            self.guard.denied(agent, wanted)
        else:
            self.guard.began(agent, wanted)
            self.guard.ended(agent, wanted, result(told))
        return False

    def act(self, agent, what):
        """Take note of what is no command."""
        match what:
            case {"edit": path}:
                self.guard.changed({tree_of(f"{HERE}/{path}", HERE)})
            case {"wait": seconds}:
                self.time += seconds
            case {"read": _}:
                pass  # the broker tells the guard of nothing that only looks
            case _:
                raise ValueError(what)

    def times(self, agent, *calls):
        return [self.call(agent, *call) for call in calls]


@pytest.mark.requirement("E16")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_the_recorded_calls_are_blocked_where_they_should_be(row):
    history, blocked = History(), []
    for number, (agent, what, *told) in enumerate(row["calls"]):
        if isinstance(what, dict):
            history.act(agent, what)
        elif history.call(agent, what, *told):
            blocked.append(number)
    assert blocked == row["blocked"]


def test_space_around_a_command_does_not_make_it_another_one():
    history = History()
    assert history.times("a", ("ls",), ("  ls\n",), ("ls ",), ("\tls",)) == [False] * 3 + [True]


def test_the_same_text_in_another_folder_is_another_command():
    history = History()
    calls = [("make", "x", f"{HERE}/{name}") for name in ("one", "two")] * 3
    assert not any(history.times("a", *calls))


def test_who_has_ended_is_forgotten_and_so_is_what_still_ran():
    history = History()
    history.times("a", *[("make",)] * 3)
    history.guard.began("a", shell("sleep 9; touch x"))
    history.guard.forget("a")
    history.guard.forget("nobody")
    assert not history.call("a", "make")


def test_the_memory_of_commands_is_bounded_and_keeps_what_is_repeated():
    history = History()
    for n in range(MEMORY + 100):
        history.call("a", f"echo {n}")
        if n % 5_000 == 0:
            history.call("a", "pwd")
    assert history.call("a", "pwd")
    assert len(history.guard._agents["a"].pasts) == MEMORY


def test_the_memory_of_what_runs_is_bounded():
    history = History()
    for n in range(MAX_RUNNING + 100):
        history.guard.began("a", shell(f"touch {n}"))
    assert len(history.guard._agents["a"].running) == MAX_RUNNING
    assert sum(history.guard._trees[HERE].running.values()) == MAX_RUNNING


def test_a_result_that_was_not_told_is_never_the_same():
    history = History()
    assert not any(history.times("a", *[("make", None)] * 10))
    assert not any(history.times("a", *[("make", "x"), ("make", "x"), ("make", None)] * 4))


def test_calls_that_run_at_the_same_time_are_let_through_and_count_once_their_results_are_known():
    history, make = History(), shell("make")
    for _ in range(5):
        assert history.guard.refusal("a", make) is None
        history.guard.began("a", make)
    for n in range(5):
        assert (history.guard.refusal("a", make) is None) is (n < 3)
        history.guard.ended("a", make, result("err"))
    assert history.call("a", "make", "err")


def test_what_was_told_of_no_end_by_the_end_of_its_turn_has_no_known_result():
    history = History()
    history.times("a", *[("make", "err")] * 2)
    history.guard.began("a", shell("make"))
    history.guard.turn_over("a")
    assert history.times("a", *[("make", "err")] * 4) == [False] * 3 + [True]


def test_a_command_that_ran_unasked_counts_with_the_others():
    history, make = History(), shell("make")
    for _ in range(3):
        history.guard.ended("a", make, result("err"), since=history.guard.mark())
    assert history.call("a", "make", "err")


def test_a_denial_that_is_told_again_as_an_event_counts_once():
    history, curl = History(), shell("curl x")
    for _ in range(3):
        assert history.guard.refusal("a", curl) is None
        history.guard.denied("a", curl)
        history.guard.ended("a", curl, DENIED)
    assert history.guard.refusal("a", curl) is not None


def test_a_new_rule_gives_what_was_denied_another_chance_and_nothing_else():
    history = History()
    history.times("a", *[("curl x", "denied")] * 3, *[("make",)] * 3)
    history.guard.rules_changed()
    assert history.call("a", "make")
    assert not history.call("a", "curl x", "ok")


def test_a_change_while_a_command_runs_makes_its_result_one_of_before():
    history, make = History(), shell("make")
    history.times("a", *[("make", "err")] * 2)
    history.guard.began("a", make)
    history.guard.changed({HERE})
    history.guard.ended("a", make, result("err"))
    assert history.times("a", *[("make", "err")] * 4) == [False] * 3 + [True]


@pytest.mark.parametrize("agent", ["a", "b"])
def test_while_another_command_runs_that_may_change_something_nothing_is_refused(agent):
    history, writer = History(), shell("sleep 60; touch x")
    history.times("a", *[("make", "err")] * 3)
    history.guard.began(agent, writer)
    assert not any(history.times("a", *[("make", "err")] * 5))
    history.guard.ended(agent, writer, result(""))
    assert history.times("a", *[("make", "err")] * 4) == [False] * 3 + [True]


def test_the_same_command_of_another_agent_is_no_change():
    history = History()
    calls = [history.call(agent, "make", "err") for agent in "abababab"]
    assert calls == [False] * 6 + [True] * 2


def test_two_commands_that_change_something_by_turns_are_changes_of_each_other():
    history = History()
    assert not any(history.times("a", *[("make", "err"), ("touch x",)] * 10))


def test_a_refused_change_is_none():
    history = History()
    assert not any(history.times("a", *[("make", "err"), ("rm -rf src", "denied")] * 3))
    assert history.call("a", "make", "err")


@pytest.mark.parametrize(
    ("folder", "is_same"),
    [
        (HERE, True),
        (f"{HERE}/src", True),
        ("/", True),
        ("/elsewhere", False),
        ("/works", False),
    ],
)
def test_an_edit_counts_in_the_trees_around_its_folder_and_below(folder, is_same):
    history = History()
    history.times("a", *[("make", "err")] * 3)
    history.guard.changed({tree_of(folder, HERE)})
    assert history.call("a", "make", "err") is not is_same


def test_folders_outside_the_workspace_are_told_apart_up_to_a_limit():
    history = History()
    for n in range(300):
        history.call("a", "touch x", "", f"/outside/{n}")
    history.times("a", *[("make", "err")] * 3)
    history.call("a", "touch x", "", "/outside/299")  # it may be anywhere
    assert not history.call("a", "make", "err")
    assert len(history.guard._trees) <= 110


def test_who_waits_before_he_looks_again_goes_on_for_ever_and_who_does_not_is_refused():
    history = History()
    for _ in range(10):
        assert not history.call("a", "git status", "clean")
        history.time += LOOK_SECONDS
    assert history.times("a", *[("git status", "clean")] * 3) == [False, False, False]
    assert history.call("a", "git status", "clean")
    history.time += LOOK_SECONDS
    assert not history.call("a", "git status", "clean")
    assert history.call("a", "git status", "clean")


def test_a_command_that_does_more_than_look_repeats_itself_however_slowly():
    history, calls = History(), []
    for _ in range(5):
        calls.append(history.call("a", "make", "err"))
        history.time += 100
    assert calls == [False] * 3 + [True] * 2


def test_the_reason_says_what_it_returned_and_what_to_do():
    history, make = History(), shell("make")
    for _ in range(3):
        history.guard.began("a", make)
        failed = outcome_of(succeeded=False, texts=("no rule",), error="exit code 2")
        history.guard.ended("a", make, failed)
    hint = history.guard.refusal("a", make) or ""
    assert "failed with exit code 2 3 times" in hint
    assert "change something first" in hint


# A model: what a history says, looked up in a list each time.

COMMANDS = ["make", "pytest", "ls", "git status", "touch x", "curl localhost"]
READS = {"ls", "git status"}
LOOKS = {"ls", "git status", "curl localhost"}
STEP = st.one_of(
    st.tuples(
        st.just("call"),
        st.sampled_from("ab"),
        st.sampled_from(COMMANDS),
        st.sampled_from(["x", "x", "x", "y", "denied", None]),
    ),
    st.tuples(st.just("edit"), st.sampled_from("ab")),
    st.tuples(st.just("wait"), st.sampled_from([1, 9, 10, 60])),
)


def is_refused(past, agent, command, time):
    """Return what the rule says of a call after a list of what happened, oldest first.

    Of the past each is (kind, agent, command, result, time); refused calls are not in it.
    """
    same = [each for each in past if each[:3] == ("call", agent, command)]
    if same and command in LOOKS and time - same[-1][4] >= LOOK_SECONDS:
        return False
    count, told, last = 0, None, None  # last: the younger run, which repeats this one or does not
    for kind, who, what, outcome, at in reversed(past):
        is_change = what not in READS and outcome != "denied"
        if kind == "edit" or (what != command and is_change):
            break
        if (who, what) != (agent, command):
            continue
        if outcome is None or (told is not None and outcome != told):
            break
        if last is not None:
            count += not (command in LOOKS and last - at >= LOOK_SECONDS)
        told, last = outcome, at
    return count + (last is not None) >= 3


@given(st.lists(STEP, max_size=60))
def test_any_history_is_judged_as_a_list_of_it_says(steps):
    history, past = History(), []
    for kind, *rest in steps:
        if kind == "wait":
            history.act("", {"wait": rest[0]})
        elif kind == "edit":
            history.act(rest[0], {"edit": "x"})
            past.append((kind, rest[0], None, None, history.time))
        else:
            agent, command, told = rest
            expected = is_refused(past, agent, command, history.time)
            assert history.call(agent, command, told) is expected
            if not expected:
                past.append((kind, agent, command, told, history.time))
