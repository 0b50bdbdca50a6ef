"""The structure of a text: what runs after, beside and inside what, and which values stand where.

Only what can be followed has one: no functions, no background, nothing that is written, no
expansion but of variables, of commands and of numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prsm_policy.shell.words import Word


@dataclass(frozen=True, slots=True)
class Literal:
    """A part of a word whose text is known."""

    word: Word


@dataclass(frozen=True, slots=True)
class Variable:
    """A part of a word that is the value of a variable.

    `derived` says that only a part of the value stands there, `counted` that it is the length.
    """

    name: str
    quoted: bool
    derived: bool = False
    counted: bool = False


@dataclass(frozen=True, slots=True)
class Substitution:
    """A part of a word that is what commands print or, if it is a `file`, a file that holds it."""

    body: Step
    quoted: bool
    file: bool = False


@dataclass(frozen=True, slots=True)
class Number:
    """A part of a word that is a number, computed from the values of these variables."""

    names: tuple[str, ...] = ()


Piece = Literal | Variable | Substitution | Number
Pieces = tuple[Piece, ...]  # one word, or one text


@dataclass(frozen=True, slots=True)
class Simple:
    """A simple command, or nothing but assignments."""

    words: tuple[Pieces, ...]
    assigned: tuple[tuple[str, Pieces], ...] = ()


@dataclass(frozen=True, slots=True)
class Fed:
    """What reads its input from files and texts."""

    body: Step
    reads: tuple[Pieces, ...]
    feeds: tuple[Pieces, ...]


@dataclass(frozen=True, slots=True)
class Sequence:
    """Steps one after the other."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """Steps of which the first runs, and each other one or not, depending on those before it."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Steps at the same time, the output of each the input of the next."""

    parts: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Subshell:
    """Steps whose folder and variables do not last."""

    body: Step


@dataclass(frozen=True, slots=True)
class Choice:
    """Conditions with what runs behind them; the last may have no condition.

    `subject` is what a `case` looks at.
    """

    branches: tuple[tuple[Step | None, Step], ...]
    subject: Pieces = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """What runs for each of some words, or as long as a condition holds."""

    body: Step
    name: str = ""
    words: tuple[Pieces, ...] = ()
    condition: Step | None = None


Step = Simple | Fed | Sequence | Either | Pipeline | Subshell | Choice | Loop
