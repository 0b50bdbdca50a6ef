"""Lines of a program, and values of which any may be odd."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.kit import as_object, read_object, token_count
from prsm_core.kit.reading import whole_number

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet=st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.dictionaries(st.text(), JSON))
def test_an_object_is_read_as_it_was_written(value):
    assert read_object(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    "line", [b"", b" ", b"{", b"[]", b"5", b"null", b'"text"', b'{"a": ' * 100_000, b"\xff"]
)
def test_what_is_no_object_is_a_value_error(line):
    with pytest.raises(ValueError, match=r".") as caught:
        read_object(line)
    assert not isinstance(caught.value, UnicodeError)


def test_a_mark_at_the_start_a_wrong_byte_and_a_control_character_spoil_nothing():
    assert read_object(b'\xef\xbb\xbf{"a": "b\xffc\td"}\n') == {"a": "b\ufffdc\td"}


@given(JSON)
def test_any_value_is_an_object_or_an_empty_one(value):
    assert as_object(value) == (value if isinstance(value, dict) else {})


@pytest.mark.parametrize(
    ("value", "count"),
    [(0, 0), (5, 5), (2**40, 2**40), (2**40 + 1, None), (-1, None), (True, None), (1.0, None)],
)
def test_a_number_of_tokens_is_a_plausible_whole_number(value, count):
    assert token_count(value) == count
    assert token_count(str(value)) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("12", 12),
        ("9" * 100, 10**100 - 1),
        *((text, None) for text in ("", "-1", "1.0", " 1", "\u0663", "\u00b2", "9" * 101)),
    ],
)
def test_a_whole_number_is_of_few_digits_and_nothing_else(text, number):
    assert whole_number(text) == number


def test_more_digits_than_python_reads_are_no_number():
    assert whole_number("9" * 5000) is None
