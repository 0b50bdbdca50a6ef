"""Records: frozen structs with which whatever works on dataclasses works as well."""

import copy
import gc
import inspect
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from typing import ClassVar

import pytest
from msgspec import field

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
    assert [field.compare for field in fields(Sample)] == [True, False]


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


def test_what_works_on_dataclasses_works_on_records():
    named = Named(x=1, name="a")
    assert all(map(is_dataclass, (named, Named)))
    assert [one.name for one in fields(named)] == ["x", "names", "note", "name"]
    assert replace(named, x=2) == Named(x=2, name="a")
    assert asdict(named) == {"x": 1, "names": {}, "note": None, "name": "a"}
    with pytest.raises(TypeError):
        replace(named, y=2)  # type: ignore[call-arg]


def test_defaults_are_told_as_those_of_dataclasses():
    by_name = {one.name: one for one in fields(Point)}
    assert by_name["note"].default is None
    assert by_name["names"].default_factory is dict
    assert [one.name for one in fields(Point) if one.kw_only] == ["x", "names", "note"]


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
