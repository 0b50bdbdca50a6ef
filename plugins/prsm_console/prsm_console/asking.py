"""Permission requests and questions put to the person at the terminal."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Protocol, TypeVar

from prsm_console.screen import Shown
from prsm_core import Answer
from prsm_core.kit import first_line
from prsm_core.terminal import VERDICT_LABELS, parse_answer, parse_verdict, what_is_asked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_console.screen import Screen
    from prsm_core import Event

T = TypeVar("T")

_FOR_ALL = {"oo": "once", "allow all": "once", "dd": "deny", "deny all": "deny"}
_AGAIN = frozenset({"v", "view"})
_AGAIN_HINT = "[v] shows it again"
_ONE = "this question takes one choice."
_CHUNK = 4096
_MAX_LINE = 1 << 20
PERMISSION = "permission_requested"
REQUESTS = frozenset({PERMISSION, "question_asked"})
ENDS = frozenset({"permission_resolved", "question_answered"})


def parse_for_all(text: str) -> str | None:
    """Return the verdict that was typed for all requests at once, None if it is for one."""
    return _FOR_ALL.get(" ".join(text.lower().split()))


class Answering(Protocol):
    """Where answers go: the requests of an AppHandle."""

    async def resolve(self, request: str, verdict: str) -> bool:
        """Answer a permission request; False when it was already answered."""

    async def answer(self, request: str, answer: Answer) -> bool:
        """Answer a question; False when it was already answered."""


class LineReader:
    """Reads answers, only while somebody waits for one; what comes meanwhile is left alone."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self._buffer = b""
        self._ended = descriptor is None

    async def read_line(self) -> str | None:
        """Return the next line without its end, or None when there is no more."""
        while b"\n" not in self._buffer and not self._ended:
            chunk = await self._read_chunk()
            self._ended = not chunk or len(self._buffer) > _MAX_LINE
            self._buffer += chunk
        line, newline, self._buffer = self._buffer.partition(b"\n")
        return line.decode(errors="replace") if line or newline else None

    def begin_answer(self) -> None:
        """Do nothing: a line is read only when it is an answer."""

    def end_answer(self) -> None:
        """Do nothing."""

    async def _read_chunk(self) -> bytes:
        descriptor = self._descriptor
        if descriptor is None:
            return b""
        try:
            await until_readable(descriptor)
        except PermissionError:  # a file or /dev/null: epoll refuses it, and it never blocks
            return os.read(descriptor, _CHUNK)
        try:
            return os.read(descriptor, _CHUNK)
        except OSError:  # the terminal was hung up (EIO): the same as its end
            return b""


async def until_readable(descriptor: int) -> None:
    """Return once there is something to read, or the end."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


class Desk:
    """Owns the requests that are open, and those now listed above the prompt.

    Permissions that wait together are listed together, and one answer may be for all of them. At
    the end of input permissions are denied, and questions get no answer. With `on_prompt` a line
    that begins with @ is no answer to a permission but a prompt to the agent it names.
    """

    def __init__(
        self,
        requests: Answering,
        reader: LineReader,
        screen: Screen,
        describe: Callable[[Event], Sequence[str]],
        on_prompt: Callable[[str], None] | None = None,
    ) -> None:
        self._requests = requests
        self._reader = reader
        self._screen = screen
        self._describe = describe
        self._on_prompt = on_prompt
        self._open: dict[str, Event] = {}
        self._arrived = asyncio.Event()
        self._asking: asyncio.Task[None] | None = None
        self._listed: Sequence[Event] = ()  # what an answer may be for; empty once it is given

    def note(self, event: Event) -> bool:
        """Take in a request or its end; return whether the desk prints it itself."""
        if event.type in REQUESTS:
            self._open[event.data["request"]] = event
            self._arrived.set()
            if any(listed.type == event.type == PERMISSION for listed in self._listed):
                self._ask_again()
            self._count_waiting()
            return True
        if event.type in ENDS:
            ended = self._open.pop(event.data["request"], None)
            self._screen.forget(event.data["request"])
            if ended in self._listed:
                self._ask_again()
            self._count_waiting()
        return False

    async def serve(self) -> None:
        """Ask until cancelled; a request that ends elsewhere is withdrawn."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._listed = await self._next()
                self._asking = group.create_task(self._ask(self._listed), name="ask the user")
                await asyncio.wait({self._asking})

    def _count_waiting(self) -> None:
        self._screen.show_waiting(len(self._open) - len(self._listed) if self._listed else 0)

    def _ask_again(self) -> None:
        """Take the prompt back: what it is about has changed."""
        self._listed = ()
        if self._asking is not None:
            self._asking.cancel()
            # Now, not when that task ends: what is printed till then would show it once more.
            self._screen.close_prompt(answered=False)

    async def _next(self) -> Sequence[Event]:
        """Wait for a request; return it, and if it is a permission all others that wait."""
        while not self._open:
            self._arrived.clear()
            await self._arrived.wait()
        first, *others = self._open.values()
        if first.type != PERMISSION:
            return (first,)
        return (first, *(event for event in others if event.type == PERMISSION))

    async def _ask(self, listed: Sequence[Event]) -> None:
        first = listed[0]
        is_permission = first.type == PERMISSION
        shown = [
            Shown(event.data["request"], self._describe(event), what_is_asked(event.data))
            for event in listed
        ]
        self._reader.begin_answer()
        try:
            self._screen.show_requests(shown, again=_AGAIN_HINT if is_permission else "")
            self._count_waiting()
            if is_permission:
                await self._ask_permission(listed)
            else:
                await self._ask_question(first)
        finally:
            self._reader.end_answer()

    async def _ask_question(self, asked: Event) -> None:
        options = _options(asked)
        several = bool(asked.data.get("multiple"))
        prompt = f"{'numbers' if several else 'number'} or text: " if options else "answer: "

        def odd(answer: Answer) -> str:
            return "" if several or len(answer.choices) <= 1 else _ONE

        answer = await self._read(prompt, lambda typed: parse_answer(typed, options), odd)
        self._close(asked)
        await self._requests.answer(asked.data["request"], answer or Answer())

    async def _ask_permission(self, listed: Sequence[Event]) -> None:
        first = listed[0]
        options = _options(first)

        def parse(typed: str) -> tuple[str, Sequence[Event]] | None:
            if len(listed) > 1 and (verdict := parse_for_all(typed)) is not None:
                return verdict, [event for event in listed if verdict in _options(event)]
            verdict = parse_verdict(typed, options)
            return None if verdict is None else (verdict, (first,))

        verdict, answered = await self._read(_prompt(listed), parse) or ("deny", (first,))
        self._close(*answered)
        for event in answered:
            await self._requests.resolve(event.data["request"], verdict)

    def _close(self, *answered: Event) -> None:
        """Forget requests: their end is our own doing now, there is nothing to withdraw."""
        self._listed = ()
        for event in answered:
            self._open.pop(event.data["request"], None)
            self._screen.forget(event.data["request"])

    async def _read(
        self,
        prompt: str,
        parse: Callable[[str], T | None],
        odd: Callable[[T], str] = lambda _: "",
    ) -> T | None:
        """Prompt until the answer is clear and nothing is odd with it; None at the end of input."""
        while (typed := await self._read_line(prompt)) is not None:
            if self._is_prompt(typed):
                continue
            answer = parse(typed)
            if answer is None:
                self._tell_unclear(typed)
            elif why := odd(answer):
                self._screen.print_lines([f"{first_line(typed)}: {why}"])
            else:
                return answer
        return None

    def _is_prompt(self, typed: str) -> bool:
        """Pass on a line that names an agent; whatever is said to a question is its answer."""
        asks_permission = any(event.type == PERMISSION for event in self._listed)
        if self._on_prompt is None or not asks_permission or not typed.lstrip().startswith("@"):
            return False
        self._on_prompt(typed)
        return True

    def _tell_unclear(self, typed: str) -> None:
        """Say that a line is no answer, with the line: it may be what somebody took pains over."""
        if typed.strip().lower() in _AGAIN and self._screen.show_again():
            return
        what = f"{first_line(typed)} is" if typed.strip() else "That is"
        self._screen.print_lines([f"{what} none of the answers."])

    async def _read_line(self, prompt: str) -> str | None:
        typed: str | None = None
        self._screen.open_prompt(prompt)
        try:
            typed = await self._reader.read_line()
        finally:
            self._screen.close_prompt(answered=typed is not None)
        return typed


def _options(event: Event) -> tuple[str, ...]:
    return tuple(event.data.get("options") or ())


def _prompt(listed: Sequence[Event]) -> str:
    """Return the answers that the first request takes, and those for all."""
    options = _options(listed[0])
    labels = " ".join(label for option, (_, label) in VERDICT_LABELS.items() if option in options)
    if len(listed) == 1:
        return f"{labels}: "
    return f"this one: {labels}, all {len(listed)}: [oo] allow once [dd] deny: "
