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

    `reads` are the files its input comes from, `writes` those its output goes to, `feeds` texts
    that are its input. `piped` says that it stands in a pipeline, `via` what runs it if that is
    another program, `behind` that its input is for sure what the command before it prints.
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
        """Find the name."""
        program = self.words[0] if self.words else None
        is_known = program is not None and program.exact and not program.glob
        name = program.text.rpartition("/")[2] if program is not None and is_known else ""
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "texts", tuple([word.text for word in self.words]))


@dataclass(frozen=True, slots=True)
class Reading:
    """What one tree says.

    `plain` says that nothing but literal simple commands is in it, `functions` are the names it
    defines, `variables` those it expands; `evaluates` says that an expansion runs text or reads a
    variable by another's name. `latent` are literal texts that would run something if they were
    expanded, which a text that `computes` does with the values of variables. `substitutes` says
    that what commands write stands for a file, `endless` that the condition of a loop never
    changes. `text` is what was read in place of the text, where that means the same to bash and
    more to the grammar.
    """

    commands: tuple[Command, ...]
    plain: bool
    functions: frozenset[str]
    variables: frozenset[str]
    evaluates: bool
    latent: tuple[str, ...] = ()
    computes: bool = False
    substitutes: bool = False
    text: str | None = None
    endless: bool = False


@dataclass(frozen=True, slots=True)
class Script:
    """All commands that a text may run, however they are nested.

    `plain` says that the first `own` commands are the whole text, in this order, and that nothing
    else happens in it. `unresolved` says why not all programs that it runs can be told, `doubtful`
    that an argument only known when it runs might name one where none is expected, `opaque` are
    texts that may run but could not be read. `functions` are the names that it defines,
    `variables` those that it expands, `evaluates` says that an expansion may run text, `endless`
    that a loop has no end of its own. `text` is what was read in place of the text, if anything.
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
