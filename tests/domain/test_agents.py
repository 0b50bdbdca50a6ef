"""Agents: the words of the specification, and results that survive JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core import AgentResult, AgentRole, AgentState, PermissionMode
from prsm_core.domain.agents import AgentDescriptor, ExpertProfile, SpawnRequest
from prsm_core.domain.messages import RoutedMessage

RESULTS = st.builds(
    AgentResult,
    agent_id=st.text(min_size=1),
    success=st.booleans(),
    summary=st.text(),
    artifacts=st.lists(st.text(), max_size=4).map(tuple),
    error=st.none() | st.text(),
    error_kind=st.none() | st.text(),
    duration=st.floats(0, 1e6),
    evidence=st.sampled_from(["claimed", "checked", "verified"]),
)


@given(RESULTS)
def test_a_result_survives_the_trip_through_json(result):
    assert AgentResult.from_dict(json.loads(json.dumps(result.to_dict()))) == result


def test_a_result_is_only_claimed_until_it_is_checked():
    assert AgentResult(agent_id="a", success=True, summary="done").evidence == "claimed"


@pytest.mark.parametrize("field", AgentResult.__struct_fields__)
def test_a_result_cannot_be_changed_afterwards(field):
    result = AgentResult(agent_id="a", success=True, summary="done")
    with pytest.raises(AttributeError, match="immutable"):
        setattr(result, field, None)


def test_an_agent_has_ended_in_exactly_three_states():
    assert {state.name for state in AgentState if state.is_terminal} == {
        "COMPLETED",
        "FAILED",
        "KILLED",
    }


@pytest.mark.requirement("E34")
def test_there_are_four_roles():
    assert [role.name for role in AgentRole] == ["MASTER", "WORKER", "EXPERT", "REVIEWER"]


@pytest.mark.requirement("E36")
def test_there_are_five_permission_modes():
    modes = {"DEFAULT", "ACCEPT_EDITS", "BYPASS", "PLAN", "DELEGATE"}
    assert {mode.name for mode in PermissionMode} == modes


@pytest.mark.requirement("E37")
@pytest.mark.parametrize(
    ("record", "specified"),
    [
        (AgentDescriptor, {"agent_id", "parent_id", "role", "model", "tools", "cwd", "state"}),
        (RoutedMessage, {"type", "source", "target", "payload", "correlation_id"}),
        (SpawnRequest, {"prompt", "parent_id", "role", "model", "tools", "cwd", "mcp_servers"}),
        (AgentResult, {"agent_id", "success", "summary", "artifacts", "error", "duration"}),
        (ExpertProfile, {"expert_id", "name", "system_prompt", "tools", "model", "mcp_servers"}),
    ],
)
def test_a_record_has_the_specified_fields_and_cannot_be_changed(record, specified):
    assert specified <= set(record.__struct_fields__)
    assert record.__struct_config__.frozen


@pytest.mark.parametrize("words", [AgentState, AgentRole, PermissionMode])
def test_the_wire_values_are_the_names_in_lower_case(words):
    assert all(member.value == member.name.lower() for member in words)
