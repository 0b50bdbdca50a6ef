"""No text makes the policy raise, and where it does all the same the command is denied."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_policy.danger.programs import named_programs
from prsm_policy.policy import understood_programs
from prsm_policy.safe.checks import VERSIONED
from prsm_policy.shell.runners import RUNNERS

from plugins.prsm_policy.tests.judging import judge, lines, rows, setting
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Deny
from tests.command_policies import Unreadable, make_policy

NAMES = sorted(
    {*understood_programs(), *named_programs(), *RUNNERS, *VERSIONED, "zz", "./zz", "/proc/1/exe"}
)
ODD = [
    "", "-", "--", "-c", "-e", "--eval", "--eval=", "-x", "-n 1", "--help", "--version", "''",
    "'' ''", "- -", "-- --", "= =", "-= x", "{} \\;", "-exec", "-C", "-C x y", "-m", "-m x y z",
    "$x", "$x $y", "*", "~", "@x", "+x", "!", "! !", ";", "a=", "-o a", "--a=b c", "-I{} {}",
    "x y z", "-abc -def g", "config", "run", "exec -- x", "[ ]", "( )", "%", ":", "-1", "0",
    "\\( \\)", "<x", ">&x", "<<<x", "<<E\nx\nE", "| x", "$(x)", "`x`", "\u00e9", "'a b' \"c\"",
]  # fmt: skip
STORE = make_policy(["make"], ["du"], ["curl", "git push", "rm -rf"])
FAILED = "the command policy failed"


def assert_judged(text):
    for mode in (PermissionMode.DEFAULT, PermissionMode.BYPASS):
        verdict = judge(text, policy=STORE, mode=mode).verdict
        assert FAILED not in verdict.reason, (text, verdict.reason)
    where = setting()
    STORE.open_parts(text, where)
    STORE.asked(text, where)
    STORE.denied(text)
    STORE.allowed(text, where)


def test_every_program_with_a_row_of_what_it_runs_is_understood():
    assert understood_programs() >= set(RUNNERS)


def test_no_program_with_odd_arguments_makes_the_policy_fail():
    assert len(NAMES) > 700
    odd = itertools.cycle(ODD)
    for name in NAMES:
        for arguments in itertools.islice(odd, 2):
            assert_judged(f"{name} {arguments}")
    for arguments in ODD:
        assert_judged(f"gfind {arguments}")


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
def test_no_program_with_any_odd_arguments_makes_the_policy_fail(part):
    for name, arguments in itertools.product(NAMES[part::8], ODD):
        assert_judged(f"{name} {arguments}")


ARGUMENTS = st.lists(st.sampled_from(ODD) | st.text(max_size=5), max_size=5).map(" ".join)


@given(st.sampled_from(NAMES), ARGUMENTS)
def test_no_program_with_random_arguments_makes_the_policy_fail(name, arguments):
    assert_judged(f"{name} {arguments}")


LISTED = [
    *(row["command"] for row in rows("commands_sample.jsonl") if len(row["command"]) < 500),
    *lines("denied_commands.txt"),
    *lines("dangerous_commands.txt"),
    *lines("hostile_commands.txt"),
    *lines("safe_commands.txt"),
    *lines("ordinary_commands.txt"),
]


@given(st.sampled_from(LISTED), st.sampled_from(NAMES), st.data())
def test_no_mutated_text_makes_the_policy_fail(text, name, data):
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 4))
    odd = data.draw(st.sampled_from([*ODD, name]))
    assert_judged(text[:at] + odd + text[at + cut :])


@pytest.mark.requirement("E24")
@pytest.mark.parametrize("mode", list(PermissionMode))
def test_where_the_policy_fails_the_command_is_denied_and_told_so(mode):
    verdict = judge(Unreadable("ls"), mode=mode).verdict
    assert isinstance(verdict, Deny)
    assert FAILED in verdict.reason
    assert "KeyError" in verdict.reason
