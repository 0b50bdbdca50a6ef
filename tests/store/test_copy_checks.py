"""What a copy's events may hold: whatever is taken in, all who read a log can take."""

import json
import math
from typing import Any

import pytest
from msgspec.structs import replace
from prsm_console.render import Ink, Renderer
from prsm_console.streams import StreamFold
from prsm_testing.samples import sample_events

from prsm_core.cli.sessions.diffing import items_of
from prsm_core.domain.events import EVENT_FIELDS, LIVE_TYPES
from prsm_core.engine.journal.views import conversation
from prsm_core.store.copies import check_told, told
from prsm_core.store.open_turn import ToldTurn

EVENTS = [event for event in sample_events() if event.type not in LIVE_TYPES]
ODD: tuple[Any, ...] = (
    *(None, "x", "", 7, -1, 2**70, 1.5, math.inf, True, [], {}, [7], ["x"], {"a": 7}, {"a": "x"}),
    *([{}], [{"a": 7}], [None], {"x": None}, {"choices": 7}, {"choices": [7]}, {"text": 7}),
    *({"tokens": "x"}, {"input_tokens": "x"}, {"message": {}}, {"kind": 7}, [{"status": 7}]),
    *([{"path": 7}], [{"state": []}], [{"targets": 7}], {"allow_project": 7}, {"tokens": None}),
    *({"added": "x"}, {"added": 1, "lines": 7}, {"added": 1, "more": "x"}),
)


def read_by_all(events):
    """Have the events read as a screen, a page, a comparison and a resume do."""
    renderer, turn = Renderer(Ink(enabled=False)), ToldTurn("t1")
    stream = StreamFold("a" * 32, "run-1")
    for event in events:
        renderer.lines(event)
        list(stream.read(event))
        turn.take(event.seq or 0, event.type, event.ts, event.data)
    items_of(events)
    json.dumps(conversation(events))
    turn.build({"id": "t1", "turn_no": 1, "parent_turn_id": None, "started_at": 1, **_NO_USE}, {})


_NO_USE = {"usage_provenance": None}


def test_every_field_of_every_event_is_known_by_what_it_holds():
    for kind, names in EVENT_FIELDS.items():
        if kind not in LIVE_TYPES:
            assert set(told(kind).__struct_fields__) == set(names)
    for event in EVENTS:
        check_told(event.type, event.data)


@pytest.mark.parametrize("place", range(len(EVENTS)), ids=lambda place: EVENTS[place].type)
def test_what_is_taken_in_can_be_read(place):
    event, taken = EVENTS[place], 0
    for name in event.data:
        for odd in ODD:
            data = {**event.data, name: odd}
            try:
                check_told(event.type, data)
            except ValueError:
                continue
            taken += 1
            read_by_all([*EVENTS[:place], replace(event, data=data), *EVENTS[place + 1 :]])
    assert taken or not event.data
