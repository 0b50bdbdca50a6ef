"""Permission requests and questions put to the person at the terminal, one at a time."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Protocol, TypeVar

from prsm_core.domain.permissions import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_core.builtin.lines import LineReader
    from prsm_core.builtin.screen import Screen
    from prsm_core.domain.events import Event

T = TypeVar("T")

_LABELS = {
    "once": ("o", "[o]nce"),
    "always": ("a", "[a]lways"),
    "allow_rule": ("r", "allow by [r]ule"),
    "deny_rule": ("x", "deny by rule [x]"),
    "deny": ("d", "[d]eny"),
}
_WORDS = {"y": "once", "yes": "once", "n": "deny", "no": "deny"}
_REQUESTS = frozenset({"permission_requested", "question_asked"})
_ENDS = frozenset({"permission_resolved", "question_answered"})


def parse_verdict(text: str, options: Sequence[str]) -> str | None:
    """Return the option that was typed by letter, by name, or as yes or no; None if unclear."""
    typed = text.strip().lower()
    letters = {letter: option for option, (letter, _) in _LABELS.items()}
    verdict = letters.get(typed) or _WORDS.get(typed, typed)
    return verdict if verdict in options else None


def parse_answer(text: str, options: Sequence[str]) -> Answer | None:
    """Return the choices that were typed by number or in full, else free text; None if empty.

    A number that is not on the list is unclear rather than free text.
    """
    typed = text.strip()
    if not typed:
        return None
    if typed in options:
        return Answer(choices=(typed,))
    if not options or not re.fullmatch(r"[0-9]+(?:[\s,]+[0-9]+)*", typed):
        return Answer(text=typed)
    numbers = [int(number) for number in re.split(r"[\s,]+", typed)]
    if not all(1 <= number <= len(options) for number in numbers):
        return None
    return Answer(choices=tuple(options[number - 1] for number in dict.fromkeys(numbers)))


class Answering(Protocol):
    """Where answers go; every AppHandle is one."""

    async def resolve_permission(self, request: str, verdict: str) -> bool:
        """Answer a permission request; False when it was already answered."""
        ...

    async def answer(self, request: str, answer: Answer) -> bool:
        """Answer a question; False when it was already answered."""
        ...


class Desk:
    """Owns the requests that are open, and the one now shown.

    The end of input is a refusal: permissions are denied, questions get no answer.
    """

    def __init__(
        self,
        app: Answering,
        reader: LineReader,
        screen: Screen,
        describe: Callable[[Event], Sequence[str]],
    ) -> None:
        self._app = app
        self._reader = reader
        self._screen = screen
        self._describe = describe
        self._open: dict[str, Event] = {}
        self._arrived = asyncio.Event()
        self._asking: asyncio.Task[None] | None = None
        self._shown: str | None = None

    def note(self, event: Event) -> bool:
        """Take in a request or its end; return whether the desk prints it itself."""
        if event.type in _REQUESTS:
            self._open[event.data["request"]] = event
            self._arrived.set()
            return True
        if event.type in _ENDS:
            request = event.data["request"]
            self._open.pop(request, None)
            if request == self._shown and self._asking is not None:
                self._asking.cancel()
        return False

    async def serve(self) -> None:
        """Ask until cancelled; a request that ends elsewhere is withdrawn."""
        async with asyncio.TaskGroup() as group:
            while True:
                event = await self._next()
                self._shown = event.data["request"]
                self._asking = group.create_task(self._ask(event), name="ask the user")
                await asyncio.wait({self._asking})
                self._open.pop(event.data["request"], None)

    async def _next(self) -> Event:
        while not self._open:
            self._arrived.clear()
            await self._arrived.wait()
        return next(iter(self._open.values()))

    async def _ask(self, event: Event) -> None:
        request, options = event.data["request"], tuple(event.data.get("options") or ())
        self._screen.print_lines(self._describe(event))
        self._reader.forget_typed()
        if event.type == "permission_requested":
            labels = (label for option, (_, label) in _LABELS.items() if option in options)
            verdict = await self._read(f"{' '.join(labels)}: ", options, parse_verdict)
            self._shown = None  # its end is our own doing now: nothing to withdraw
            await self._app.resolve_permission(request, verdict or "deny")
        else:
            prompt = "number or text: " if options else "answer: "
            answer = await self._read(prompt, options, parse_answer)
            self._shown = None
            await self._app.answer(request, answer or Answer())

    async def _read(
        self, prompt: str, options: Sequence[str], parse: Callable[[str, Sequence[str]], T | None]
    ) -> T | None:
        """Prompt until the answer is clear; None at the end of input."""
        while (typed := await self._read_line(prompt)) is not None:
            answer = parse(typed, options)
            if answer is not None:
                return answer
        return None

    async def _read_line(self, prompt: str) -> str | None:
        typed: str | None = None
        self._screen.open_prompt(prompt)
        try:
            typed = await self._reader.read_line()
        finally:
            self._screen.close_prompt(answered=typed is not None)
        return typed
