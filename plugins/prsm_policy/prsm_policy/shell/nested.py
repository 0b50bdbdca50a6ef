"""What a command runs beside its own program, and how each argument may be the start of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prsm_policy.shell.script import Assignment, Command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_policy.shell.words import Word

_MAX_LOOSE = 40  # words of a command that may stand anywhere among arguments
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
# An option of one letter with its value: su -crm.
_ATTACHED = re.compile(r"-[A-Za-z]([A-Za-z/].*)", re.DOTALL)
LOOKS_LIKE_CODE = re.compile(r"[\s;&|`$<>(]")
# A command line behind a word of the program's own: a setting of ssh, an address of socat, what a
# debugger or a pager passes to a shell.
OWN_WORD = re.compile(
    r"(?:(?:-o)?\w*Command[\s=]+|(?:EXEC|SYSTEM|SHELL):|\+?!|(?:platform )?shell\s+|pipe\s[^|]*\|)"
    r"(?P<value>.*)",
    re.DOTALL | re.IGNORECASE,
)
# Files that are what comes in.
INPUT_FILE = re.compile(r"-|/dev/stdin|/dev/fd/[0-9]+|/proc/(?:self|thread-self|[0-9]+)/fd/[0-9]+")


@dataclass(slots=True)
class Nested:
    """What is inside a command.

    `codes` are texts that a shell reads, `opaque` texts in another language that may start
    programs. `certain` says that `commands` is all there is, `reads_input` that what comes in is
    run as well, by a shell or, with `interprets`, as another language; `unresolved` says why it
    cannot be told which programs run, `doubtful` why others than usual might.
    """

    commands: list[Command] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    opaque: list[str] = field(default_factory=list)
    unresolved: str | None = None
    doubtful: str | None = None
    certain: bool = True
    reads_input: bool = False
    interprets: bool = False

    def add_code(self, word: Word, reader: str) -> None:
        """Note a text that will be read as commands."""
        if not word.exact:
            self.unresolved = f"{reader} runs a text that is only known when it runs"
        if word.text:
            self.codes.append(word.text)

    def add_file(self, word: Word, reader: str) -> None:
        """Note a file that will be read as commands."""
        if not word.exact:
            self.unresolved = f"{reader} runs a file that is only known when it runs"
            self.reads_input = True  # it may stand for what a command writes
        elif INPUT_FILE.fullmatch(word.text):
            self.reads_input = True


def nested_command(
    command: Command, words: Sequence[Word], assigned: Sequence[Assignment] = ()
) -> Command:
    """Return the command that these words of a command are, which runs it."""
    return Command(
        tuple(words),
        (*command.assigned, *assigned),
        command.reads,
        (),
        command.feeds,
        piped=command.piped,
        via=command.name or "?",
    )


def note_any_argument(command: Command, nested: Nested, start: int = 1) -> None:
    """Take every argument for the beginning of a command, or for a text that a shell reads."""
    words = command.words
    nested.certain = False
    if len(words) - start > _MAX_LOOSE:
        nested.unresolved = f"{command.name} may run any of its many arguments"
        nested.opaque.append(" ".join(command.texts[start:]))
        return
    for position in range(start, len(words)):
        text = words[position].text
        if text and not text.startswith("-") and not ASSIGNMENT.match(text):
            nested.commands.append(nested_command(command, words[position:]))
        if LOOKS_LIKE_CODE.search(text):
            nested.codes.append(text)
        if "=" in text:
            nested.codes.append(text.partition("=")[2])
        if attached := _ATTACHED.fullmatch(text):
            nested.codes.append(attached[1])
        note_own_word(text, nested)


def note_own_word(text: str, nested: Nested) -> None:
    """Note the command line in an argument that begins with a word of the program's own."""
    if found := OWN_WORD.fullmatch(text):
        nested.codes.append(found["value"])
