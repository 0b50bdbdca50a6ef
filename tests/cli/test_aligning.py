"""What two lists have in common, and what it takes to find that out."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.cli.sessions.diffing import MOST, aligned

KEYS = st.lists(st.sampled_from("abc"), max_size=9)


class Told(str):
    """A key that counts how often it is looked for."""

    __slots__ = ()
    looks = 0

    def __hash__(self) -> int:
        Told.looks += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)


def in_order(pairs):
    return all(a < c and b < d for (a, b), (c, d) in itertools.pairwise(pairs))


@pytest.mark.parametrize("most", [0, MOST])
@given(ours=KEYS, theirs=KEYS)
def test_pairs_are_equal_and_in_order(most, ours, theirs):
    pairs = list(aligned(ours, theirs, most=most))
    assert in_order(pairs)
    assert all(ours[a] == theirs[b] for a, b in pairs)


@pytest.mark.parametrize("most", [0, MOST])
@given(shared=KEYS, ours=KEYS, theirs=KEYS)
def test_what_both_begin_with_is_paired_as_it_stands(most, shared, ours, theirs):
    pairs = list(aligned([*shared, *ours], [*shared, *theirs], most=most))
    assert pairs[: len(shared)] == [(n, n) for n in range(len(shared))]


@pytest.mark.parametrize("most", [0, MOST])
def test_what_was_put_in_between_is_alone_in_no_pair(most):
    assert list(aligned("abcabd", "abxcabyd", most=most)) == [
        (0, 0),
        (1, 1),
        (2, 3),
        (3, 4),
        (4, 5),
        (5, 7),
    ]


def test_a_list_twice_as_long_takes_no_four_times_as_many_looks():
    looks = []
    for size in (4_000, 8_000):
        ours, theirs = (
            [Told(n if n % 2 else f"{side}{n}") for n in range(size)] for side in ("a", "b")
        )
        Told.looks = 0
        assert len(list(aligned(ours, theirs))) == size // 2
        looks.append(Told.looks)
    assert looks[1] <= 2.5 * looks[0]
