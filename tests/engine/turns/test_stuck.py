"""Stuck detection against what each pattern means, spelt out over whole histories."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from prsm_core.config.limits import StuckSettings
from prsm_core.engine.turns.stuck import Finding, Pattern, StuckDetector, hash_arguments
from prsm_core.store.codec import encode_canonical

LIMITS = StuckSettings(repeats=4, rounds=3, messages=5, texts=3, polls=6)

# What an agent does: a turn with a prompt (None: it goes on), a message, or a call.
TURNS = st.tuples(st.just("turn"), st.sampled_from([None, 1, 2]))
MESSAGES = st.tuples(st.just("message"), st.sampled_from([1, 2, 3]))
CALLS = st.tuples(st.just("call"), st.sampled_from("AB"), st.sampled_from([1, 2]))
POLLS = st.tuples(st.just("call"), st.just("poll"), st.just(1))
# Mostly runs and swings, which chance alone hardly makes.
RUNS = st.builds(lambda act, n: [act] * n, CALLS | POLLS | MESSAGES, st.integers(1, 14))
SWINGS = st.builds(lambda a, b, n: [a, b] * n, CALLS, CALLS | POLLS, st.integers(1, 14))
HISTORIES = st.lists(RUNS | SWINGS | st.lists(TURNS, max_size=1), max_size=6).map(
    lambda parts: [act for part in parts for act in part]
)

# What a vendor may give for arguments; half a surrogate pair is text that not all can write.
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    PLAIN | st.text() | st.just("\ud800"),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("\udfff"), inner),
    max_leaves=8,
)


def play(history, limits=LIMITS) -> list[Finding | None]:
    """Return what the detector finds after each act."""
    detector = StuckDetector(limits)
    found: list[Finding | None] = []
    for kind, *what in history:
        if kind == "turn":
            detector.turn_began(what[0])
            found.append(None)
        elif kind == "message":
            found.append(detector.said(what[0]))
        else:
            found.append(detector.called(what[0], 0, what[1], polls=what[0] == "poll"))
    return found


def since_news(history):
    """Return what came after the last prompt that differs from the one before it."""
    prompts = [(i, act[1]) for i, act in enumerate(history) if act[0] == "turn" and act[1]]
    news = [i for (_, before), (i, now) in pairwise([(-1, None), *prompts]) if before != now]
    return history[news[-1] + 1 :] if news else history


def tail_while(items, holds) -> int:
    """Return how many of the last items hold, in a row."""
    count = 0
    for item in reversed(items):
        if not holds(item):
            break
        count += 1
    return count


def sizes(history) -> list[tuple[Pattern, int, int]]:
    """Return each pattern at the end of a history with its length and its limit."""
    acts = since_news(history)
    if not acts or acts[-1][0] == "turn":
        return []
    if acts[-1][0] == "message":
        talk = acts[len(acts) - tail_while(acts, lambda act: act[0] != "call") :]
        texts = [act[1] for act in talk if act[0] == "message"]
        return [
            (Pattern.MONOLOGUE, tail_while(texts, lambda t: t == texts[-1]), LIMITS.texts),
            (
                Pattern.MONOLOGUE,
                tail_while(talk, lambda act: act[0] == "message"),
                LIMITS.messages,
            ),
        ]
    calls = [act[1:] for act in acts if act[0] == "call"]
    last = calls[-1]
    limit = LIMITS.polls if last[0] == "poll" else LIMITS.repeats
    found = [(Pattern.REPEAT, tail_while(calls, lambda call: call == last), limit)]
    if len(calls) > 1 and calls[-2] != last:
        pair = calls[-2:]
        swing = 2
        while swing < len(calls) and calls[-1 - swing] == pair[(swing + 1) % 2]:
            swing += 1
        limit = LIMITS.polls if "poll" in {pair[0][0], last[0]} else LIMITS.rounds
        if swing % 2 == 0:
            found.append((Pattern.ALTERNATION, swing // 2, limit))
    return found


@pytest.mark.requirement("U17")
@given(HISTORIES)
@example([("call", "A", 1)] * 8)
@example([("call", "A", 1), ("call", "B", 1)] * 6)
@example([("message", 1), ("turn", None)] * 6)
@example([("turn", 1), ("message", 1)] * 6)
@example([("message", n) for n in (1, 2, 1, 2, 1, 2, 1, 3, 3, 3)])
@example([("turn", 1), ("message", 1), ("turn", 2), ("message", 1)] * 3)
def test_a_pattern_is_found_when_there_is_one_and_never_else(history):
    for end, finding in enumerate(play(history), start=1):
        due = [
            (pattern, size == 2 * limit)
            for pattern, size, limit in sizes(history[:end])
            if size in {limit, 2 * limit}
        ]
        assert (finding is not None) == bool(due), history[:end]
        if finding is not None:
            assert (finding.pattern, finding.is_final) in due
            assert finding.is_final == any(is_final for _, is_final in due)


@given(HISTORIES)
def test_a_limit_of_zero_switches_its_pattern_off(history):
    off = StuckSettings(repeats=0, rounds=0, messages=0, texts=0, polls=0)
    assert not any(play(history, off))


@given(HISTORIES.filter(bool), st.sampled_from(["A", "x{0}", "%s"]))
def test_what_a_detector_keeps_does_not_grow(history, tool):
    detector = StuckDetector(LIMITS)
    for number, _ in enumerate(history):
        detector.called(tool, number, number)
        detector.said(number)
        detector.turn_began(number)
    kept = [getattr(detector, name) for name in StuckDetector.__struct_fields__]
    assert all(isinstance(value, int | tuple | StuckSettings | None) for value in kept)


@pytest.mark.parametrize(
    ("history", "text"),
    [
        ([("call", "a{0}", 1)] * 4, "the same call of a{0} with the same result 4 times in a row"),
        (
            [("call", "A", 1), ("call", "B", 1)] * 3,
            "A and B by turns with the same results, 3 rounds",
        ),
        ([("message", n) for n in range(5)], "5 messages in a row without a tool call"),
        ([("message", 1)] * 3, "the same message 3 times"),
    ],
)
def test_a_finding_names_the_pattern_and_how_long_it_is(history, text):
    finding = play(history)[-1]
    assert finding is not None
    assert (finding.text, finding.is_final) == (text, False)


def test_equal_calls_with_unequal_results_are_no_repeat():
    assert not any(play([("call", "A", number) for number in range(50)]))


def test_one_message_between_two_calls_is_no_pattern():
    history = [act for n in range(20) for act in [("message", 1), ("call", "A", n)]]
    assert not any(play(history))


def test_a_tools_name_of_any_length_is_told_in_a_few_words():
    detector = StuckDetector(StuckSettings(repeats=2))
    found = [detector.called("x" * 10_000, 1, 1) for _ in range(2)]
    assert found[1] is not None
    assert len(found[1].text) < 200


@given(JSON, JSON)
def test_arguments_have_one_hash_if_they_are_the_same_json(one, other):
    """In whatever order the keys come, and with whatever text in them."""
    arguments = {"one": one, "\ud800": other}
    assert hash_arguments(arguments) == hash_arguments(dict(reversed(arguments.items())))
    if encode_canonical(one) != encode_canonical(other):
        assert hash_arguments({"it": one}) != hash_arguments({"it": other})
