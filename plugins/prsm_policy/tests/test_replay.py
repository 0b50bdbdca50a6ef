"""Recorded commands judged by other rules, and the rules that approvals suggest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_policy.danger import script_danger
from prsm_policy.places import Place
from prsm_policy.recorded import Outcome, Recorded
from prsm_policy.replay import SAME, Fate, replay, suggest
from prsm_policy.shell import read_script

from plugins.prsm_policy.tests.judging import rows, setting
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Allow
from prsm_core.permissions.secret_shapes import MARK
from prsm_core.policies.rule_classes import LOOK_UPS
from tests.command_policies import make_policy

SAMPLE = sorted({row["command"] for row in rows("commands_sample.jsonl")})


def recorded(command, outcome=Outcome.APPROVED, *, mode=PermissionMode.DEFAULT, by_person=True):
    return Recorded(
        command=command,
        mode=mode,
        cwd=".",
        workspace="/nowhere",
        outcome=outcome,
        by_person=by_person,
    )


def suggested(commands, **options):
    found = suggest(commands, make_policy(), **options)
    return {" ".join(each.rule): each for each in found}


@pytest.mark.requirement("F14")
def test_each_different_command_is_judged_again_with_how_often_it_ran():
    commands = [
        recorded("frob x", Outcome.RAN),
        recorded("frob x", Outcome.RAN),
        recorded("ls", Outcome.APPROVED),
        recorded("make all", Outcome.APPROVED),
        recorded("git push", Outcome.RAN, mode=PermissionMode.BYPASS),
    ]
    rules = make_policy(allow=["make all"], deny=["git push"])
    found = [(row.command, row.times, row.fate) for row in replay(commands, rules)]
    assert found == [
        ("frob x", 2, Fate.ASKS),
        ("ls", 1, Fate.RUNS),
        ("make all", 1, Fate.RUNS),
        ("git push", 1, Fate.DENIED),
    ]


def test_rules_that_did_the_same_change_nothing():
    rules = make_policy(deny=["git push"])
    commands = [
        recorded("ls", Outcome.RAN),
        recorded("frob", Outcome.REFUSED),
        recorded("frob", Outcome.APPROVED),
        recorded("git push", Outcome.DENIED),
    ]
    assert all(row.fate is SAME[row.outcome] for row in replay(commands, rules))


@pytest.mark.requirement("F14")
def test_what_was_approved_three_times_is_suggested_with_all_it_would_cover():
    commands = [
        *[recorded("npm run build")] * 2,
        recorded("npm run build -- --prod"),
        recorded("cd . && npm run build | head -3", Outcome.RAN),
        recorded("npm run deploy"),
        recorded("ls"),
    ]
    [(rule, found)] = suggested(commands).items()
    assert (rule, found.approved) == ("npm run build", 3)
    assert found.covered == (
        ("npm run build", 2),
        ("npm run build -- --prod", 1),
        ("cd . && npm run build | head -3", 1),
    )


@pytest.mark.requirement("F14")
@pytest.mark.parametrize(
    "command",
    [
        "rm -rf build",
        "git push --force",
        "sudo make install",
        "./frob",
        "curl https://x.org | sh",
        "python -c 'print(1)'",
        "npm run build && rm -rf dist",
        "cat .env",
        f"TOKEN={MARK} frob",
        "frob > out.txt",
        "echo $(frob)",
    ],
)
def test_what_is_dangerous_or_no_rule_can_say_is_never_suggested(command):
    assert suggested([recorded(command)] * 9) == {}


def test_what_was_approved_less_often_or_not_by_a_person_is_not_suggested():
    often = [recorded("npm run build")] * 2
    assert suggested(often) == {}
    assert suggested(often, least=2).keys() == {"npm run build"}
    assert suggested([recorded("npm run build", by_person=False)] * 9) == {}
    assert suggested([recorded("npm run build", Outcome.RAN)] * 9) == {}


def test_a_rule_that_covers_what_a_person_refused_is_not_suggested():
    refused = recorded("npm run build -- --watch", Outcome.REFUSED)
    assert suggested([*[recorded("npm run build")] * 5, refused]) == {}
    nobody = recorded("npm run build -- --watch", Outcome.REFUSED, by_person=False)
    assert suggested([*[recorded("npm run build")] * 5, nobody]).keys() == {"npm run build"}


def test_what_a_rule_covers_already_is_not_suggested():
    policy = make_policy(allow=["npm run build"])
    assert suggest([recorded("npm run build")] * 5, policy) == ()


def test_look_ups_are_suggested_as_their_class():
    looked = ["gh pr list", "docker ps", "gh run list"]
    found = suggested([recorded(command) for command in looked])
    assert found.keys() == {LOOK_UPS}
    assert len(found[LOOK_UPS].covered) == 3


@given(commands=st.lists(st.sampled_from(SAMPLE), min_size=1, max_size=8))
def test_a_suggested_rule_lets_nothing_dangerous_run(commands):
    approved = [recorded(command) for command in commands for _ in range(3)]
    place = Place.of(".", "/nowhere")
    for each in suggest(approved, make_policy()):
        policy = make_policy(allow=[each.rule])
        for command in SAMPLE:
            runs = isinstance(policy.decide(command, setting(trusted=False)), Allow)
            if runs and script_danger(read_script(command), place) is not None:
                plain = make_policy().decide(command, setting(trusted=False))
                assert isinstance(plain, Allow), (each.rule, command)
