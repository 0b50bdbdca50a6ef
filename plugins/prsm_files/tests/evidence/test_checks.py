"""Evidence can sink: a check counts only behind the last edit, and a red one until it is green."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_files.session.evidence.command_log import Check, CommandLog, End, read_command, red

from prsm_core.domain.changes import Author, ChangeRow, FileChange
from prsm_core.domain.events import Event
from prsm_core.engine.state import NEVER
from tests.command_policies import POLICY

pytestmark = pytest.mark.requirement("U28", "U13", "F9")


class Deeds:
    """Calls of an agent, one after the other, and what they changed."""

    def __init__(self, *commands):
        self.log, self.seq, self.calls = CommandLog(commands, POLICY), 0, 0
        self.rows: list[ChangeRow] = []

    def event(self, kind, who="", **data):
        self.seq += 1
        event = Event(type=kind, session="S", run="R", ts=1.0, agent=who or "a", data=data)
        self.log.read(event.at(self.seq), who, "/work")

    def call(self, tool, who="", status="completed", exit_code=None, changes=False, **arguments):
        self.calls += 1
        call = f"c{self.calls}"
        self.event("tool_call_started", who, call=call, tool=tool, arguments=arguments)
        self.event("tool_call_finished", who, call=call, status=status, exit_code=exit_code)
        if changes:
            self.rows.append(row(who or "a", call))
        return self

    def shell(self, command, exit_code=0, **more):
        status = "completed" if exit_code in {0, None} else "failed"
        given = {"status": status, **more}
        return self.call("Bash", command=command, exit_code=exit_code, **given)

    def edit(self, who=""):
        return self.call("Edit", who, changes=True, file_path="a.py")

    @property
    def is_checked(self):
        """Whether a check has succeeded since the last edit, and none is red."""
        has_checked = self.log.has_checked_since(self.log.last_edit(self.rows))
        return has_checked and not (self.log.red() or self.log.gaps())


def row(agent, call):
    change = FileChange(
        id=call, scan="s", path="a.py", folder="/work", kind="modified", how="possible",
        authors=(Author(agent, call),),
    )  # fmt: skip
    return ChangeRow(change=change, at=1.0)


def test_a_check_behind_the_last_edit_counts_and_one_before_it_does_not():
    assert Deeds().edit().shell("pytest -q").is_checked
    assert not Deeds().shell("pytest -q").edit().is_checked
    assert not Deeds().edit().is_checked
    assert Deeds().edit().shell("pytest").edit().shell("pytest").is_checked


@pytest.mark.parametrize("named", [(), ("pytest",)])
def test_a_check_that_waited_for_permission_ran_after_what_was_edited_meanwhile(named):
    deeds = Deeds(*named)
    deeds.event("tool_call_started", call="check", tool="Bash", arguments={"command": "pytest"})
    deeds.event("permission_requested", call="check", request="r")
    deeds.edit("w1")
    assert not deeds.is_checked
    deeds.event("permission_resolved", request="r", verdict="once")
    deeds.event("tool_call_finished", call="check", status="completed", exit_code=0)
    assert deeds.is_checked
    assert not deeds.edit("w1").is_checked


def test_a_command_that_changes_files_is_an_edit_wherever_it_was_found():
    assert not Deeds().shell("pytest").shell("make gen", changes=True).is_checked
    assert Deeds().shell("pytest").shell("ls").is_checked
    assert not Deeds().shell("pytest && ./fix-all", changes=True).is_checked
    assert Deeds().shell("./fix-all && pytest", changes=True).is_checked


def test_what_a_check_writes_itself_is_no_edit():
    assert Deeds().edit().shell("pytest --junitxml=r.xml", changes=True).is_checked
    assert Deeds("make report").edit().shell("make report", changes=True).is_checked


@pytest.mark.parametrize(
    "hidden", ["pytest | tail -3", "pytest; true", "pytest || true", "pytest &", "! pytest"]
)
def test_a_code_that_the_shell_swallows_neither_counts_nor_clears(hidden):
    assert not Deeds().edit().shell(hidden).is_checked
    assert Deeds().shell("pytest", 1).shell(hidden).log.red() == ["pytest"]
    named = Deeds(hidden).edit().shell(hidden)
    assert not named.is_checked
    assert len(named.log.gaps()) == 1


@pytest.mark.parametrize("code", [None, 1])
def test_a_check_whose_code_is_not_0_does_not_count(code):
    assert not Deeds().edit().shell("pytest", code).is_checked


def test_a_check_that_failed_last_is_red_whatever_else_succeeds():
    assert not Deeds().edit().shell("pytest", 1).shell("ruff check .").is_checked
    assert not Deeds().edit().shell("pytest").shell("pytest", 1).is_checked
    assert not Deeds().shell("pytest", 1).edit().shell("ruff check .").is_checked
    assert Deeds().shell("pytest", 1).edit().shell("pytest").is_checked
    assert Deeds().shell("pytest -x tests/a.py::b", 1).edit().shell("pytest -q").is_checked
    assert not Deeds().shell("pytest", 1).edit().shell("pytest -k easy").is_checked
    assert not Deeds().shell("pytest", 1).edit().shell("pytest tests/a.py").is_checked
    assert not Deeds().shell("cd x && pytest", 1).edit().shell("cd y && pytest").is_checked


def test_a_chain_that_fails_makes_each_of_its_checks_red():
    assert Deeds().shell("ruff check . && pytest", 1).log.red() == ["ruff check .", "pytest"]
    assert Deeds().shell("pytest | tail", 1).log.red() == []


def test_a_check_that_was_denied_has_not_run():
    assert Deeds().edit().shell("pytest").shell("pytest", None, status="denied").is_checked


@pytest.mark.parametrize(
    "command",
    ["pytest --collect-only", "pytest --version", "ruff check --exit-zero", "make -n test", "ls",
     "PATH=/tmp/fake pytest", "PYTEST_ADDOPTS=--co pytest", "python app.py"],
)  # fmt: skip
def test_what_checks_nothing_is_no_check(command):
    assert not Deeds().edit().shell(command).is_checked


@pytest.mark.parametrize(
    "command",
    [".venv/bin/pytest", "python3.11 -m pytest", "uv run pytest", "npm test", "npm run lint",
     "tox -e py", "make test", "cargo test", "go test ./...", "timeout 60 pytest", "npx jest"],
)  # fmt: skip
def test_checks_are_known_however_they_are_called(command):
    assert Deeds().edit().shell(command).is_checked
    assert Deeds().shell(command, 1).log.red()


def test_named_commands_are_found_as_parts_of_longer_ones():
    assert Deeds("./verify").edit().shell("cd sub && ./verify").is_checked
    assert not Deeds("./verify").edit().shell("./verify; echo done").is_checked


def test_what_agents_below_edit_sinks_what_was_checked_before():
    assert not Deeds().shell("pytest").edit("w1").is_checked
    assert Deeds().edit("w1").shell("pytest").is_checked


def test_a_merge_of_work_from_below_is_an_edit():
    deeds = Deeds().shell("pytest")
    deeds.event("worktree_merged", "w1", result="merged", files=["a.py"])
    assert not deeds.is_checked


def test_where_nobody_watches_each_command_counts_that_may_write():
    def edited(command):
        return Deeds().shell(command).log.last_edit(None) > NEVER

    assert edited("sed -i s/a/b/ a.py")
    assert not edited("cat a.py")
    assert not edited("pytest -q")


CHECKS = [
    read_command(text, POLICY).ends(End.FAILED, "/work")[0]
    for text in ("pytest", "pytest -q", "pytest tests", "pytest tests/a.py", "pytest -k x", "mypy")
]


@given(st.lists(st.tuples(st.sampled_from(CHECKS), st.sampled_from(list(End)))))
def test_red_are_those_that_nothing_green_has_covered_since(history):
    runs = [(check, text, end) for (check, text, _), end in history]
    expected = {
        text
        for at, (check, text, end) in enumerate(runs)
        if end is End.FAILED
        and not any(
            later is End.SUCCEEDED and other.covers(check) for other, _, later in runs[at + 1 :]
        )
    }
    assert set(red(runs)) == expected


@given(st.sampled_from(CHECKS), st.sampled_from(CHECKS), st.sampled_from(CHECKS))
def test_covering_is_reflexive_and_transitive(one, two, three):
    first, second, third = one[0], two[0], three[0]
    assert isinstance(first, Check)
    assert first.covers(first)
    if first.covers(second) and second.covers(third):
        assert first.covers(third)
