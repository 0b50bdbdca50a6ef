"""Reads a text: all that it runs, wrappers and interpreters followed, in bounded time."""

from __future__ import annotations

import re
import time
from functools import lru_cache
from typing import TYPE_CHECKING

from prsm_policy.shell.data_shells import DATA_SHELLS, acts_of
from prsm_policy.shell.find_nested import find_nested
from prsm_policy.shell.grammar import MAX_SECONDS, MAX_TEXT, RefusedError
from prsm_policy.shell.inline import bare_name
from prsm_policy.shell.plain import read_plain
from prsm_policy.shell.reader import read_tree
from prsm_policy.shell.script import Command, Reading, Script
from prsm_policy.shell.words import Word
from prsm_policy.shell.wrappers import CALLS, EVALUATED, EVALUATES, INTERPRETERS

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_PLAIN = 20_000  # characters; a longer text is not plain
MAX_COMMANDS = 1_000
MAX_WORDS = 4_000  # of all commands together: each wrapper repeats those of what it runs
_ECHO_OPTION = re.compile(r"-[neE]+")
_RUN_FILES = DATA_SHELLS | {"make", "gmake", "sed", "gsed"}  # beside interpreters
_TELLERS = frozenset({"echo", "printf", "cat", "tee"})


def read_script(text: str) -> Script:
    """Return what a text runs under bash; it never raises, and its cost is bounded."""
    return _remembered(text) if len(text) <= MAX_TEXT else _Survey(text).script()


def forget_scripts() -> None:
    """Forget what was read, as measurements need."""
    _remembered.cache_clear()


@lru_cache(maxsize=64)
def _remembered(text: str) -> Script:
    # One decision looks at the same text several times.
    return _Survey(text).script()


class _Survey:
    """Reads a text and what is nested in it, until nothing new is found or it is too much."""

    def __init__(self, text: str) -> None:
        self._deadline: float | None = None  # from the first text on that needs the grammar
        self._text = text
        self._texts = [text]
        self._seen = {text}
        self._size = 0
        self._words = 0
        self._commands: list[Command] = []
        self._hungry: list[Command] = []  # shells that run what comes in
        self._curious: list[Command] = []  # interpreters that may do so
        self._opaque: list[str] = []
        self._unresolved: str | None = None
        self._doubtful: str | None = None
        self._readings: list[Reading] = []
        self._latent: list[str] = []  # what runs if values of variables are expanded again

    def script(self) -> Script:
        while self._texts:
            self._read(self._texts.pop())
            if not self._texts and self._hungry:
                self._feed()
            if not self._texts and self._latent:
                self._expand_latent()
        readings = self._readings
        if self._curious:
            self._note_foreign()
        if any(reading.substitutes for reading in readings):
            self._note_substituted()
        one = readings[0] if len(readings) == 1 else _together(readings)
        is_read = bool(readings) and self._text not in self._opaque
        return Script(
            tuple(self._commands),
            len(readings[0].commands) if is_read else 0,
            plain=is_read and readings[0].plain and len(self._text) <= MAX_PLAIN,
            unresolved=self._unresolved,
            opaque=tuple(self._opaque),
            functions=one.functions,
            variables=one.variables,
            evaluates=one.evaluates,
            doubtful=self._doubtful,
            text=readings[0].text if is_read else None,
            endless=any(reading.endless for reading in readings),
        )

    def _read(self, text: str) -> None:
        self._size += len(text)
        try:
            reading = read_plain(text) or self._read_tree(text)
            self._readings.append(reading)
            self._latent += reading.latent
            self._open(reading.commands)
        except RefusedError as error:
            self._refuse(text, str(error))

    def _read_tree(self, text: str) -> Reading:
        now = time.thread_time()
        if self._deadline is None:
            self._deadline = now + MAX_SECONDS
        if self._size > 2 * MAX_TEXT or now > self._deadline:
            raise RefusedError("too much is nested in it")
        return read_tree(text, self._deadline)

    def _expand_latent(self) -> None:
        is_expanded = any(reading.computes for reading in self._readings)
        if is_expanded or any(map(_evaluates, self._commands)):
            self._add(self._latent)

    def _refuse(self, text: str, reason: str) -> None:
        self._opaque.append(text)
        self._unresolved = self._unresolved or reason

    def _open(self, found: tuple[Command, ...]) -> None:
        self._commands += found
        rest = list(found)
        while rest:
            command = rest.pop()
            nested = find_nested(command)
            self._commands += nested.commands
            rest += nested.commands
            self._words += sum(len(inner.words) for inner in nested.commands)
            if len(self._commands) > MAX_COMMANDS or self._words > MAX_WORDS:
                raise RefusedError("it runs too many commands to be told")
            self._add(nested.codes)
            self._opaque += nested.opaque
            self._unresolved = self._unresolved or nested.unresolved
            self._doubtful = self._doubtful or nested.doubtful
            if nested.reads_input:
                (self._curious if nested.interprets else self._hungry).append(command)

    def _add(self, texts: list[str]) -> None:
        for text in texts:
            if text not in self._seen and text.strip():
                self._seen.add(text)
                self._texts.append(text)

    def _feed(self) -> None:
        """Read what may come in to a shell: heredocs, and what is said upstream."""
        for command in self._commands:
            for word in command.feeds:
                self._take(word.text, is_exact=word.exact)
            if command.name == "exec" and command.reads:
                self._take("", is_exact=False)  # from now on that comes in
        if any(command.piped or _reads_unknown(command) for command in self._hungry):
            hungry = {id(command) for command in self._hungry}
            for command in self._commands:
                is_inner = bool(command.via) and command.name not in _TELLERS
                if command.piped and not is_inner and id(command) not in hungry:
                    self._take_said(command)
        self._hungry.clear()

    def _note_foreign(self) -> None:
        """Note what comes in to interpreters and may start programs."""
        if not any(command.piped or command.feeds for command in self._curious):
            return
        texts = [word.text for command in self._commands for word in command.feeds]
        texts += [
            " ".join(command.texts[1:])
            for command in self._commands
            if command.piped and command.name in _TELLERS
        ]
        shells = {command.name for command in self._curious} & DATA_SHELLS
        words = [Word(text) for text in texts] if shells else ()
        self._opaque += [act.text for name in shells for act in acts_of(name, (), words)]
        self._opaque += [text for text in texts if CALLS.search(text)]

    def _note_substituted(self) -> None:
        """Note that an interpreter may read what a command writes."""
        if any(
            not word.exact and not word.text
            for command in self._commands
            if _runs_files(command.name)
            for word in command.words[1:]
        ):
            self._unresolved = self._unresolved or "it runs what another command writes"

    def _take_said(self, command: Command) -> None:
        words = command.words[1:]
        while command.name == "echo" and words and _ECHO_OPTION.fullmatch(words[0].text):
            words = words[1:]
        text = " ".join(word.text for word in words)
        is_said = command.name in _TELLERS and all(word.known for word in command.words)
        is_said = is_said and (command.name not in {"cat", "tee"} or bool(command.feeds))
        if command.name == "printf":  # its format may put any of them first
            self._add([word.text for word in words])
        self._take(text, is_exact=is_said and "\\" not in text and "%" not in text)

    def _take(self, text: str, *, is_exact: bool) -> None:
        if not is_exact:
            self._unresolved = self._unresolved or "a shell runs what is only known when it runs"
        self._add([text])


def _evaluates(command: Command) -> bool:
    """Return whether a command expands values of variables again."""
    names = (each.name for each in command.assigned)
    return command.name in EVALUATES or not EVALUATED.isdisjoint(names)


def _reads_unknown(command: Command) -> bool:
    """Return whether what a command reads, or takes for a file, may be what another one writes."""
    words = (*command.words[1:], *command.reads, *(each.value for each in command.assigned))
    return any(not word.exact for word in words)


def _runs_files(name: str) -> bool:
    """Return whether a program may take the text of a file for a program."""
    return bare_name(name) in INTERPRETERS or name in _RUN_FILES


def _together(readings: Sequence[Reading]) -> Reading:
    """Return what several readings say beside their commands."""
    return Reading(
        (),
        plain=False,
        functions=frozenset[str]().union(*(reading.functions for reading in readings)),
        variables=frozenset[str]().union(*(reading.variables for reading in readings)),
        evaluates=any(reading.evaluates for reading in readings),
    )
