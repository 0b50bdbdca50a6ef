"""Identifiers are unique, sortable in the order they were made, and reproducible."""

from __future__ import annotations

import random
import re
import uuid

from hypothesis import given
from hypothesis import strategies as st

from prsm_core.domain.ids import Ids, encode_ulid

MILLIS = st.integers(0, 2**48 - 1)
ENTROPY = st.integers(0, 2**80 - 1)


@given(st.lists(st.floats(0, 4e9), min_size=1, max_size=50), st.integers())
def test_ulids_sort_in_the_order_they_were_made_even_when_the_clock_goes_back(times, seed):
    ticks = iter(times)
    ids = Ids(lambda: next(ticks), random.Random(seed))
    made = [ids.ulid() for _ in times]
    assert made == sorted(set(made))


@given(st.floats(0, 4e9), st.floats(0, 4e9), st.integers())
def test_ulids_sort_after_all_that_an_earlier_source_made_until_then(until, now, seed):
    earlier = Ids(lambda: until, random.Random(seed))
    ids = Ids(lambda: now, random.Random(seed + 1))
    before = [earlier.ulid() for _ in range(3)]
    ids.not_before(until)
    made = [ids.ulid() for _ in range(3)]
    assert [*before, *made] == sorted({*before, *made})


def test_ulids_of_one_millisecond_are_consecutive():
    ids = Ids(lambda: 1.0, random.Random(7))
    made = [ids.ulid() for _ in range(3000)]
    begin = random.Random(7).getrandbits(79) + 1
    assert made == [encode_ulid(1000, begin + number) for number in range(3000)]


@given(MILLIS, ENTROPY)
def test_a_ulid_is_26_digits_of_crockfords_alphabet(millis, entropy):
    assert re.fullmatch(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", encode_ulid(millis, entropy))


@given(st.tuples(MILLIS, ENTROPY), st.tuples(MILLIS, ENTROPY))
def test_ulids_sort_as_time_and_entropy_do(a, b):
    assert (encode_ulid(*a) < encode_ulid(*b)) == (a < b)


def test_a_ulid_of_known_parts_is_the_documented_text():
    assert encode_ulid(1469918176385, 0) == "01ARYZ6S41" + "0" * 16
    assert encode_ulid(2**48 - 1, 2**80 - 1) == "7" + "Z" * 25


@given(st.integers())
def test_the_same_time_and_seed_make_the_same_ids(seed):
    def made() -> list[str]:
        ids = Ids(lambda: 12.5, random.Random(seed))
        return [ids.ulid(), ids.agent(), ids.request(), ids.ulid()]

    assert made() == made()


@given(st.integers())
def test_a_request_id_is_a_random_uuid(seed):
    text = Ids(lambda: 0.0, random.Random(seed)).request()
    parsed = uuid.UUID(text)
    assert str(parsed) == text
    assert (parsed.version, parsed.variant) == (4, uuid.RFC_4122)


def test_an_agent_id_is_32_hex_digits_and_unlike_the_next():
    ids = Ids(lambda: 0.0)
    first, second = ids.agent(), ids.agent()
    assert re.fullmatch(r"[0-9a-f]{32}", first)
    assert first != second
