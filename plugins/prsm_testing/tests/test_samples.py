"""The samples cover the contract, so that contract tests do."""

import json

import pytest
from prsm_testing import (
    later_events,
    sample_contexts,
    sample_events,
    sample_models,
    sample_requests,
)

from prsm_core import AgentRole, ModelTier, PermissionMode
from prsm_core.domain.events import EVENT_FIELDS, LIVE_TYPES, Event


def test_there_is_one_event_of_every_type_with_every_field(prsm_events):
    assert prsm_events == sample_events()
    assert sorted(event.type for event in prsm_events) == sorted(EVENT_FIELDS)
    for event in prsm_events:
        assert set(event.data) == set(EVENT_FIELDS[event.type])
        assert Event.from_dict(json.loads(json.dumps(event.to_dict()))) == event


def test_committed_events_are_numbered_and_live_ones_are_not(prsm_events):
    committed = [event for event in prsm_events if event.type not in LIVE_TYPES]
    assert [event.seq for event in committed] == list(range(1, len(committed) + 1))
    assert {event.seq for event in prsm_events if event.type in LIVE_TYPES} == {None}
    assert (prsm_events[0].type, prsm_events[-1].type) == ("run_started", "run_finished")


def test_later_events_hold_what_this_version_would_refuse():
    unknown, extended = later_events(first_seq=7)
    assert (unknown.type in EVENT_FIELDS, unknown.seq, extended.seq) == (False, 7, 8)
    assert unknown.to_dict()["to"] == "rain"
    assert set(extended.to_dict()) > {"level", "text", "colour"}
    for event in (unknown, extended):
        with pytest.raises(ValueError, match=r"unknown event type|has no field"):
            Event.from_dict(event.to_dict())


def test_requests_contexts_and_models_are_of_every_kind():
    assert {context.mode for context in sample_contexts()} == set(PermissionMode)
    assert {context.interactive for context in sample_contexts()} == {True, False}
    assert {context.role for context in sample_contexts()} <= set(AgentRole)
    assert {model.tier for model in sample_models()} == set(ModelTier)
    commands = [request.command for request in sample_requests()]
    assert None in commands
    assert "" in commands
    assert any(request.paths for request in sample_requests())


async def test_the_fixtures_give_an_application_and_the_installed_plugins(prsm_app, prsm_plugins):
    assert prsm_app.options.task
    assert {record.name: record.state for record in prsm_plugins.records}["builtin"] == "active"
