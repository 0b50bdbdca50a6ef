"""Records: frozen structs that say what they take, and are copied with other values."""

import copy
import gc
import inspect
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import ClassVar

import pytest
from msgspec import field
from msgspec.structs import asdict, replace

from prsm_core import Deny, TokenUsage, TurnEnded
from prsm_core.domain import writes
from prsm_core.domain.events import Event
from prsm_core.domain.record import Labelled, Record
from prsm_core.domain.steps import Committed, Step
from prsm_core.domain.turns import StopReason
from prsm_core.domain.writes import Told


class Point(Record, frozen=True, kw_only=True):
    x: int
    names: Mapping[str, int] = field(default_factory=dict)
    # As of names that only a type checker imports.
    note: "NotImported | None" = None  # type: ignore[name-defined]  # noqa: F821


class Named(Point, frozen=True, kw_only=True):
    name: str


def test_a_record_is_equal_to_another_one_of_its_kind_with_the_same_fields():
    assert Point(x=1) == Point(x=1, names={})
    assert Point(x=1) != Point(x=2)
    assert Point(x=1) != Named(x=1, name="a")


class Sample(Labelled, frozen=True, eq=False):
    value: int
    label: str = ""

    _labels: ClassVar[frozenset[str]] = frozenset({"label"})


def test_what_only_labels_a_record_makes_no_difference():
    one, same = Sample(1, "a"), Sample(1, "b")
    assert one == same
    assert hash(one) == hash(same)
    assert one != Sample(2, "a")
    assert one != (1, "a")
    assert Sample(1) != Deny("r")
    assert (one.label, replace(one, value=2).label) == ("a", "a")
    assert repr(one) == "Sample(value=1, label='a')"
    assert Sample.__struct_fields__ == ("value", "label")


def test_a_record_cannot_be_changed():
    point = Point(x=1)
    for name in ("x", "y"):
        with pytest.raises(AttributeError):
            setattr(point, name, 2)
    with pytest.raises(AttributeError):
        del point.x
    assert point == Point(x=1)


def test_records_share_no_default():
    assert Point(x=1).names is not Point(x=1).names


def test_a_record_is_no_dataclass_and_is_copied_with_other_values():
    named = Named(x=1, name="a")
    assert not any(map(is_dataclass, (named, Named)))
    assert Named.__struct_fields__ == ("x", "names", "note", "name")
    assert replace(named, x=2) == Named(x=2, name="a")
    assert asdict(named) == {"x": 1, "names": {}, "note": None, "name": "a"}
    with pytest.raises(TypeError):
        replace(named, y=2)


def test_defaults_are_told_by_the_signature():
    by_name = inspect.signature(Point).parameters
    assert by_name["note"].default is None
    assert by_name["names"].default.factory is dict
    assert {one.kind for one in by_name.values()} == {inspect.Parameter.KEYWORD_ONLY}
    by_place = inspect.signature(Sample).parameters.values()
    assert {one.kind for one in by_place} == {inspect.Parameter.POSITIONAL_OR_KEYWORD}


def test_a_signature_needs_no_name_of_an_annotation():
    told = inspect.signature(Point)
    assert list(told.parameters) == ["x", "names", "note"]
    assert told.parameters["x"].default is inspect.Parameter.empty
    assert told.parameters["note"].default is None
    assert list(inspect.signature(TurnEnded).parameters) == ["stop_reason", "error"]
    assert TurnEnded(StopReason.END_TURN).error is None


def test_a_record_is_copied_and_hashed_by_its_fields():
    usage = TokenUsage(input_tokens=3)
    assert copy.deepcopy(usage) == usage
    assert hash(usage) == hash(TokenUsage(input_tokens=3))


def test_a_value_that_holds_only_plain_ones_is_no_work_for_the_garbage_collector():
    values = (*(getattr(writes, name) for name in writes.__all__), Step, Committed, Event)
    assert not [value.__name__ for value in values if value.__struct_config__.gc]
    usage = TokenUsage(input_tokens=3)
    assert not gc.is_tracked(Told(kind="notice", data={"usage": [usage]}))
