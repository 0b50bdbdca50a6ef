"""The structure of a text: what runs after, beside and inside what, and which values stand where.

Only what can be followed has one: no functions, no background, nothing that is written, no
expansion but of variables, of commands and of numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from prsm_policy.shell.words import Word


class Literal(Struct, frozen=True):
    """A part of a word whose text is known."""

    word: Word


class Variable(Struct, frozen=True):
    """A part of a word that is the value of a variable, a part derived of it, or its length."""

    name: str
    quoted: bool
    derived: bool = False
    counted: bool = False


class Substitution(Struct, frozen=True):
    """A part of a word that is what commands print or, if it is a `file`, a file that holds it."""

    body: Step
    quoted: bool
    file: bool = False


class Number(Struct, frozen=True):
    """A part of a word that is a number, computed from the values of these variables."""

    names: tuple[str, ...] = ()


Piece = Literal | Variable | Substitution | Number
Pieces = tuple[Piece, ...]  # one word, or one text


class Simple(Struct, frozen=True):
    """A simple command, or nothing but assignments."""

    words: tuple[Pieces, ...]
    assigned: tuple[tuple[str, Pieces], ...] = ()


class Fed(Struct, frozen=True):
    """What reads its input from files and texts."""

    body: Step
    reads: tuple[Pieces, ...]
    feeds: tuple[Pieces, ...]


class Sequence(Struct, frozen=True):
    """Steps one after the other."""

    steps: tuple[Step, ...]


class Either(Struct, frozen=True):
    """Steps of which the first runs, and each other one or not, depending on those before it."""

    steps: tuple[Step, ...]


class Pipeline(Struct, frozen=True):
    """Steps at the same time, the output of each the input of the next."""

    parts: tuple[Step, ...]


class Subshell(Struct, frozen=True):
    """Steps whose folder and variables do not last."""

    body: Step


class Choice(Struct, frozen=True):
    """Conditions with what runs behind them, the last maybe without; or what a `case` looks at."""

    branches: tuple[tuple[Step | None, Step], ...]
    subject: Pieces = ()


class Loop(Struct, frozen=True):
    """What runs for each of some words, or as long as a condition holds."""

    body: Step
    name: str = ""
    words: tuple[Pieces, ...] = ()
    condition: Step | None = None


Step = Simple | Fed | Sequence | Either | Pipeline | Subshell | Choice | Loop
