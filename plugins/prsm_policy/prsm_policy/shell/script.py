"""What was read from shell text: its commands, and what could not be read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prsm_policy.shell.words import Word


@dataclass(frozen=True, slots=True)
class Assignment:
    """A variable that is set, alone or for one command."""

    name: str
    value: Word


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command: a program with its arguments, or nothing but assignments.

    Its input comes from the files `reads` and the texts `feeds`, its output goes to `writes`. It
    may be `piped`, and `behind` a command whose output is surely its input. `via` names another
    program that runs it.
    """

    words: tuple[Word, ...]
    assigned: tuple[Assignment, ...] = ()
    reads: tuple[Word, ...] = ()
    writes: tuple[Word, ...] = ()
    feeds: tuple[Word, ...] = ()
    piped: bool = False
    via: str = ""
    behind: bool = False
    name: str = field(init=False, compare=False)  # of the program, without its path; "" if unknown
    texts: tuple[str, ...] = field(init=False, compare=False, repr=False)  # of its words

    def __post_init__(self) -> None:
        """Find the name and the texts."""
        program = self.words[0] if self.words else None
        is_known = program is not None and program.exact and not program.glob
        name = program.text.rpartition("/")[2] if program is not None and is_known else ""
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "texts", tuple([word.text for word in self.words]))


@dataclass(frozen=True, slots=True)
class Reading:
    """What one tree says.

    A `plain` one holds nothing but literal simple commands. `functions` are the names it defines,
    `variables` those it expands; it `evaluates` if an expansion runs text or reads a variable by
    another's name. `latent` are literal texts that would run something if they were expanded, which
    a text that `computes` does with the values of variables. What commands write stands for a file
    if it `substitutes`; a loop whose condition never changes is `endless`. `text` was read in place
    of the text, where that means the same to bash and more to the grammar.
    """

    commands: tuple[Command, ...]
    plain: bool
    functions: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()
    evaluates: bool = False
    latent: tuple[str, ...] = ()
    computes: bool = False
    substitutes: bool = False
    text: str | None = None
    endless: bool = False


@dataclass(frozen=True, slots=True)
class Script:
    """All commands that a text may run, however they are nested.

    In a `plain` one the first `own` commands are the whole text, in this order. `unresolved` says
    why not all programs that it runs can be told, `doubtful` that an argument only known when it
    runs might name one. `opaque` are texts that may run but could not be read. The rest is as in
    Reading.
    """

    commands: tuple[Command, ...] = ()
    own: int = 0
    plain: bool = False
    unresolved: str | None = None
    opaque: tuple[str, ...] = ()
    functions: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()
    evaluates: bool = False
    doubtful: str | None = None
    text: str | None = None
    endless: bool = False
