"""What fits of a rebuilt conversation: never more than there is room for, and in its order."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from prsm_core.domain.turns import AgentMessage
from prsm_core.engine.turns.context import (
    CUT,
    MESSAGE_TOKENS,
    Conversation,
    Room,
    clipped,
    count_tokens,
    fit,
    history_tokens,
    message_tokens,
    newest,
)

TEXTS = st.one_of(
    st.text(max_size=40),
    st.integers(0, 3000).map("word ".__mul__),
    st.integers(0, 300).map("\n\u2028".__mul__),
    st.integers(0, 300).map("漢字\ud800".__mul__),
)
CONVERSATIONS = st.builds(
    lambda texts, head: Conversation(tuple(texts[:head]), tuple(texts[head:])),
    st.lists(TEXTS, max_size=12).map(
        lambda texts: [message(text, number) for number, text in enumerate(texts)]
    ),
    st.integers(0, 2),
)
ROOMS = st.one_of(st.integers(-50, 300), st.integers(-50, 20_000))


def message(text, number=0):
    return AgentMessage(
        id=f"m{number}", role="user", content=text, sequence=number, created_at=number
    )


def marks(fitted):
    return [one for one in fitted.messages if one.id.endswith(":left_out")]


@given(CONVERSATIONS, ROOMS)
@example(Conversation((message("x" * 5000),), (message("y"),)), 100)
def test_what_fits_is_never_more_than_the_room(conversation, room):
    fitted = fit(conversation, room)
    assert history_tokens(fitted.messages) <= max(0, room)


@given(CONVERSATIONS, ROOMS)
def test_messages_keep_their_order_and_are_whole_but_for_one_of_the_head(conversation, room):
    fitted = fit(conversation, room)
    said = [one for one in fitted.messages if one not in marks(fitted)]
    assert [one.sequence for one in said] == sorted(one.sequence for one in said)
    cut = [one for one in said if one not in conversation.all]
    assert len(cut) == fitted.is_cut
    heads = {one.id for one in conversation.head}
    assert all(one.id in heads and one.content.endswith(CUT) for one in cut)


@given(CONVERSATIONS, ROOMS)
def test_the_reader_is_told_how_many_messages_are_left_out(conversation, room):
    fitted = fit(conversation, room)
    there = len(fitted.messages) - len(marks(fitted))
    assert fitted.left_out == len(conversation.all) - there
    told = [f"[{fitted.left_out} messages stood here" in one.content for one in marks(fitted)]
    if fitted.messages:
        assert told == [True] * (fitted.left_out > 0)


@given(CONVERSATIONS, ROOMS)
def test_what_is_kept_is_the_newest_in_a_row(conversation, room):
    kept = newest(conversation.messages, room)
    assert conversation.messages[len(conversation.messages) - len(kept) :] == kept
    if len(kept) < len(conversation.messages):
        one_more = conversation.messages[len(conversation.messages) - len(kept) - 1 :]
        assert history_tokens(one_more) > room


@given(CONVERSATIONS)
def test_what_fits_as_a_whole_is_left_as_it_is(conversation):
    fitted = fit(conversation, history_tokens(conversation.all))
    assert (fitted.messages, fitted.left_out, fitted.is_cut) == (conversation.all, 0, False)


@given(TEXTS, ROOMS)
def test_a_message_is_cut_to_its_room_or_is_none(text, room):
    whole = message(text)
    part = clipped(whole, room)
    if part is None:
        assert room < message_tokens(message(text[:1] + CUT))
    else:
        assert message_tokens(part) <= room
        assert part is whole or text.startswith(part.content.removesuffix(CUT))


@given(st.lists(TEXTS, max_size=5))
def test_a_text_counts_as_a_third_of_its_bytes(texts):
    for text in texts:
        size = len(text.encode("utf-8", "surrogatepass"))
        assert 3 * count_tokens(text) - size in {0, 1, 2}
    assert history_tokens(map(message, texts)) >= MESSAGE_TOKENS * len(texts)


@given(st.integers(1, 2_000_000), st.floats(0.01, 1.0), st.none() | st.integers(1, 2_000_000))
def test_a_room_leaves_what_the_answer_may_have(window, share, response):
    room = Room.of(window, share, response)
    assert 1 <= room.fill <= window
    if response is not None and response < window:
        assert window - room.fill >= response
