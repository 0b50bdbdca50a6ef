"""JSON of the ledger: the same text as `json.dumps` writes, and the same refusals."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.store.codec import encode, encode_canonical

_PLAIN = st.none() | st.booleans() | st.integers() | st.text()
_VALUES = st.recursive(
    _PLAIN | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(_VALUES)
def test_the_text_is_what_dumps_writes(value: Any) -> None:
    plain = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    canonical = json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    assert (encode(value), encode_canonical(value)) == (plain, canonical)


def test_mappings_sets_and_tuples_are_written_as_json_has_them() -> None:
    value = {"m": MappingProxyType({"b": 1, "a": 2}), "s": frozenset({"y", "x"}), "t": (1, 2)}
    assert encode(value) == '{"m":{"b":1,"a":2},"s":["x","y"],"t":[1,2]}'


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_lacks_is_refused(number: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode({"n": number})


def test_what_is_no_json_is_refused_by_its_type() -> None:
    with pytest.raises(TypeError, match="object is not a JSON value"):
        encode({"n": object()})


def test_a_circle_is_refused_as_one_and_nothing_after_it() -> None:
    circle: dict[str, Any] = {}
    circle["again"] = [circle]
    with pytest.raises(ValueError, match="Circular reference"):
        encode(circle)
    del circle["again"]
    assert encode([circle, circle]) == "[{},{}]"


def test_what_is_too_deep_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(RecursionError):
        encode(deep)
