"""Framing and the first line: bounded, exact, and nothing but the right token gets in."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_mcp.wire import HELLO_LIMIT, LineReader, credentials, decode_hello, encode

from prsm_core.errors import LineTooLongError

HELLO: dict[str, Any] = {"agent": "a1", "token": "t" * 64, "pid": 7}
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def read_lines(chunks, limit=64):
    """Return the lines that a reader makes of chunks, and whether one was too long."""

    async def read():
        stream = asyncio.StreamReader()
        for chunk in chunks:
            stream.feed_data(chunk)
        stream.feed_eof()
        lines, reader = [], LineReader(stream)
        try:
            while (line := await reader.line(limit)) is not None:
                lines.append(line)
        except LineTooLongError:
            return lines, True
        return lines, False

    return asyncio.run(read())


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_lines_do_not_depend_on_how_they_were_cut_into_chunks(chunks):
    *whole, _rest = b"".join(chunks).split(b"\n")
    expected = []
    for line in whole:
        if len(line) > 64:
            break
        expected.append(line)
    lines, too_long = read_lines(chunks)
    assert lines == expected
    assert too_long or len(lines) == len(whole)


@pytest.mark.parametrize(("size", "fits"), [(64, True), (65, False), (1 << 20, False)])
def test_a_line_is_as_long_as_the_limit_at_most(size, fits):
    lines, too_long = read_lines([b"x" * size + b"\n"])
    assert (lines == [b"x" * size], too_long) == (fits, not fits)


def test_a_line_without_an_end_is_refused_before_all_of_it_has_come():
    assert read_lines([b"x" * 65]) == ([], True)


def test_the_first_line_says_who_connects():
    said = decode_hello(encode({**HELLO, "patience_s": 2.5}))
    assert said is not None
    assert (said.agent, said.token, said.pid, said.patience_s) == ("a1", "t" * 64, 7, 2.5)
    assert HELLO["token"] not in repr(said)


@given(st.binary(max_size=200) | values.map(lambda v: json.dumps(v).encode()))
def test_garbage_is_nobody_and_never_an_error(line):
    assert decode_hello(line) is None


@given(st.sampled_from([*HELLO, "patience_s"]), values)
def test_a_first_line_with_something_odd_in_it_is_nobody_or_carries_no_other_token(field, value):
    said = decode_hello(json.dumps({**HELLO, field: value}).encode())
    if said is not None:
        right = credentials(HELLO["agent"], HELLO["token"])
        same = field not in {"agent", "token"} or value == HELLO[field]
        assert (said.key == right) == same


@pytest.mark.parametrize("patience", ["1e999", "NaN", "0", "-1", "true", '"5"', "9" * 400])
def test_a_patience_that_is_none_is_refused(patience):
    line = json.dumps(HELLO)[:-1] + f', "patience_s": {patience}}}'
    assert len(line) < HELLO_LIMIT
    assert decode_hello(line.encode()) is None


@given(st.text(), st.text(), st.text(), st.text())
def test_no_two_pairs_of_agent_and_token_are_the_same_credentials(agent, token, other, another):
    same = (agent, token) == (other, another)
    assert (credentials(agent, token) == credentials(other, another)) == same


def test_nesting_without_end_is_nobody():
    assert decode_hello(b"[" * HELLO_LIMIT) is None
