"""What is typed on a terminal: whose each line is, and that none is left for a shell."""

import asyncio
import os
import select
import termios
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from prsm_console.keyboard import Keyboard

from prsm_core.terminal.foreground import leaving_nothing_typed


class View:
    """Keeps what is shown of typing."""

    def __init__(self):
        self.text, self.is_draft = "", False
        self.codes: list[str] = []

    def write(self, code):
        self.codes.append(code)

    def show_typed(self, text, *, is_draft):
        self.text, self.is_draft = text, is_draft


class Hands:
    """A terminal, its keyboard, and the person's fingers."""

    def __init__(self, *, is_live=True, **options):
        self._person, self.terminal = os.openpty()
        self.view = cast("Any", View())
        self.prompts: list[str] = []
        self.told: list[str] = []
        self.keyboard = Keyboard(
            self.terminal,
            on_prompt=self.prompts.append,
            tell=self.told.append,
            view=self.view if is_live else None,
            **options,
        )

    async def type(self, keys):
        """Type, and let it be read."""
        os.write(self._person, keys.encode())
        while select.select([self.terminal], [], [], 0)[0]:  # noqa: ASYNC110 - nobody else knows
            await asyncio.sleep(0)

    def echoes(self):
        return bool(termios.tcgetattr(self.terminal)[3] & termios.ECHO)

    def hang_up(self):
        os.close(self._person)
        self._person = -1

    def close(self):
        self.keyboard.close()
        for descriptor in (self._person, self.terminal):
            if descriptor >= 0:
                os.close(descriptor)


@asynccontextmanager
async def serving(**options):
    hands = Hands(**options)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        serving = group.create_task(hands.keyboard.serve())
        await asyncio.sleep(0)
        try:
            yield hands
        finally:
            serving.cancel()
            hands.close()


async def test_a_line_is_a_prompt_until_something_is_asked():
    async with serving() as hands:
        await hands.type("mend it\r\n  \n")
        hands.keyboard.begin_answer()
        await hands.type("o\n")
        assert await hands.keyboard.read_line() == "o"
        hands.keyboard.end_answer()
        await hands.type("go on\n")
    assert hands.prompts == ["mend it", "go on"]


async def test_a_prompt_that_was_begun_before_a_request_never_answers_it():
    async with serving() as hands:
        await hands.type("now say y")
        assert (hands.view.text, hands.view.is_draft) == ("now say y", False)
        hands.keyboard.begin_answer()
        assert hands.view.is_draft
        await hands.type("\nd\n")
        assert await hands.keyboard.read_line() == "d"
    assert hands.prompts == ["now say y"]


async def test_what_was_typed_and_not_read_when_something_is_asked_is_no_answer():
    hands = Hands()
    os.write(hands._person, b"o\n")
    hands.keyboard.refresh()
    hands.keyboard.begin_answer()
    assert hands.prompts == ["o"]
    hands.close()


async def test_an_answer_to_what_has_ended_is_told_and_answers_nothing_else():
    async with serving() as hands:
        hands.keyboard.begin_answer()
        await hands.type("o")
        hands.keyboard.end_answer()
        hands.keyboard.begin_answer()
        await hands.type("\nd\n")
        assert await hands.keyboard.read_line() == "d"
    assert hands.told == ["not taken: 'o': what it was the answer to has changed"]
    assert hands.prompts == []


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ("abx\x7fc", "abc"),
        ("all of it\x17\x17wrong\x15right", "right"),
        ("a\x1b[Ab\x1bOHc\x1b[1;5Dd\x01", "abcd"),
        ("\x1b[200~two\nlines\x1b[201~!", "two\nlines!"),
        ("漢字é\x7f", "漢字"),
        ("tab\there", "tab\there"),
    ],
)
async def test_a_line_is_edited(keys, line):
    async with serving() as hands:
        for byte in keys:  # a key's sequence may come in parts
            await hands.type(byte) if byte != "\x1b" else None
            if byte == "\x1b":
                os.write(hands._person, b"\x1b")
        await hands.type("\n")
    assert hands.prompts == [line]


async def test_the_end_of_input_answers_nothing_but_what_is_asked():
    async with serving() as hands:
        await hands.type("\x04half\x04")
        hands.keyboard.begin_answer()
        await hands.type("\n\x04")
        assert await hands.keyboard.read_line() is None
    assert hands.prompts == ["half"]


async def test_where_the_person_leaves_by_it_the_end_of_input_is_no_answer():
    async with serving(leaves=True) as hands:
        hands.keyboard.begin_answer()
        await hands.type("\x04")
        await hands.keyboard.ended.wait()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await hands.keyboard.read_line()


async def test_a_terminal_that_is_hung_up_answers_nothing_for_good():
    async with serving() as hands:
        hands.hang_up()
        await hands.keyboard.ended.wait()
        for _ in range(2):
            hands.keyboard.begin_answer()
            assert await hands.keyboard.read_line() is None


async def test_the_terminal_is_given_back_as_it_was_found():
    async with serving() as hands:
        await hands.type("x")
        assert not hands.echoes()
        hands.keyboard.close()
        assert hands.echoes()


async def test_where_the_screen_cannot_be_moved_the_terminal_edits_lines_itself():
    async with serving(is_live=False) as hands:
        await hands.type("hello\n")
        assert hands.echoes()
        hands.keyboard.begin_answer()
        await hands.type("o\n")
        assert await hands.keyboard.read_line() == "o"
    assert hands.prompts == ["hello"]


def test_what_is_left_unread_is_dropped():
    person, terminal = os.openpty()
    with leaving_nothing_typed(terminal):
        os.write(person, b"rm -rf /\n")
        assert select.select([terminal], [], [], 5)[0]
    assert not select.select([terminal], [], [], 0)[0]
    os.close(person)
    os.close(terminal)


def test_a_pipe_keeps_what_was_not_read():
    reader, writer = os.pipe()
    with leaving_nothing_typed(reader), leaving_nothing_typed(None):
        os.write(writer, b"kept")
    assert os.read(reader, 10) == b"kept"
    os.close(reader)
    os.close(writer)
