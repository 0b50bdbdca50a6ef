"""What "always" allows, and for whom."""

from __future__ import annotations

import json

import pytest

from prsm_core.domain.agents import AgentRole, PermissionMode
from prsm_core.domain.permissions import PermissionContext, PermissionRequest
from prsm_core.permissions import Grants
from prsm_core.permissions.grants import Permit
from tests.command_policies import POLICY

EXACT = POLICY.exact


def asks(agent, *, tool="Bash", command=None):
    return PermissionRequest(agent_id=agent, tool=tool, command=command)


def under(*lineage):
    return PermissionContext(
        mode=PermissionMode.DEFAULT,
        role=AgentRole.WORKER,
        provider="p",
        workspace="/w",
        lineage=lineage,
    )


def test_a_grant_holds_for_the_agent_and_all_below_it_but_not_beside_it():
    grants = Grants()
    grants.add("parent", asks("parent", tool="WebFetch"), EXACT)
    wanted = asks("child", tool="WebFetch")
    assert grants.matches(wanted, under("child", "parent", "master"), EXACT)
    assert not grants.matches(wanted, under("child", "other", "master"), EXACT)
    assert not grants.matches(asks("master", tool="WebFetch"), under("master"), EXACT)
    assert not grants.matches(asks("child", tool="Deploy"), under("child", "parent"), EXACT)


@pytest.mark.parametrize(
    ("again", "granted"),
    [
        ("make  test", True),
        ("'make' test", True),
        ("make test x", False),
        ("make", False),
        ("make test; rm x", False),
        ("A=1 make test", False),
        ("make test <x", False),
        ("make test # x", False),
        ("make $(echo test)", False),
    ],
)
def test_a_grant_of_a_command_holds_for_its_exact_words(again, granted):
    grants = Grants()
    grants.add("a", asks("a", command="make test"), EXACT)
    assert grants.matches(asks("a", command=again), under("a"), EXACT) == granted


@pytest.mark.parametrize(
    "command", ["ls *.py", "ls '*.py'", "cat ~/x", "cat '~/x'", "a && b", "x >y"]
)
def test_a_grant_of_any_command_holds_for_that_text_and_no_other(command):
    grants = Grants()
    grants.add("a", asks("a", command=command), EXACT)
    texts = {"ls *.py", "ls '*.py'", "cat ~/x", "cat '~/x'", "a && b", "x >y"}
    assert [t for t in texts if grants.matches(asks("a", command=t), under("a"), EXACT)] == [
        command
    ]


def test_a_grant_of_a_command_is_no_grant_of_the_tool():
    grants = Grants()
    grants.add("a", asks("a", command="ls"), EXACT)
    assert not grants.matches(asks("a"), under("a"), EXACT)


def test_grants_come_back_from_the_ledger():
    grants = Grants()
    grants.add("a", asks("a", command="make test"), EXACT)
    grants.add("a", asks("a", tool="WebFetch"), EXACT)
    rows = json.loads(json.dumps(grants.to_dicts()))
    again = Grants(map(Permit.from_dict, rows))
    assert again.to_dicts() == grants.to_dicts()
    assert again.matches(asks("b", command="make test"), under("b", "a"), EXACT)
