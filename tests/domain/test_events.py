"""Events survive the trip through JSON and refuse what the contract does not know."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core import Event
from prsm_core.domain.events import EVENT_FIELDS, LIVE_TYPES

JSON = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20)
IDS = st.text("abcdef0123456789", min_size=1, max_size=8)


@st.composite
def events(draw) -> Event:
    kind = draw(st.sampled_from(sorted(EVENT_FIELDS)))
    return Event(
        type=kind,
        session=draw(IDS),
        run=draw(st.none() | IDS),
        agent=draw(st.none() | IDS),
        ts=draw(st.floats(0, 4e9)),
        seq=draw(st.none() | st.integers(1, 2**63 - 1)),
        data={name: draw(JSON) for name in EVENT_FIELDS[kind]},
    )


@given(events())
def test_an_event_survives_the_trip_through_json(event):
    assert Event.from_dict(json.loads(json.dumps(event.to_dict()))) == event


@given(events())
def test_the_envelope_comes_first_and_then_the_fields_in_their_order(event):
    envelope = ["seq", "ts", "session", "run", "agent", "type"]
    assert list(event.to_dict()) == [*envelope, *EVENT_FIELDS[event.type]]


def test_a_field_that_was_not_given_is_null():
    event = Event(type="notice", session="s", run=None, ts=0.0, data={"text": "hello"})
    assert event.to_dict()["level"] is None


def test_an_unknown_type_is_refused():
    with pytest.raises(ValueError, match="unknown event type 'agent_exploded'"):
        Event(type="agent_exploded", session="s", run=None, ts=0.0)


def test_an_unknown_field_is_refused():
    with pytest.raises(ValueError, match=r"event notice has no field \['colour'\]"):
        Event(type="notice", session="s", run=None, ts=0.0, data={"text": "x", "colour": "red"})


def test_no_field_hides_a_name_of_the_envelope():
    envelope = {"seq", "ts", "session", "run", "agent", "type"}
    assert not [name for name, fields in EVENT_FIELDS.items() if envelope & set(fields)]


@given(events(), st.integers(1, 2**63 - 1))
def test_a_committed_event_differs_in_its_number_only(event, seq):
    committed = event.at(seq)
    assert committed.seq == seq
    assert {**committed.to_dict(), "seq": event.seq} == event.to_dict()


def test_live_types_are_known_types():
    assert set(EVENT_FIELDS) >= LIVE_TYPES
