"""What the words of a command can be when it runs, given the values of variables."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.safe.listed import Names, Passage, simple_pattern
from prsm_policy.safe.producers import ANYTHING, Output
from prsm_policy.shell.tree import Literal, Number, Substitution, Variable
from prsm_policy.shell.words import Kind, Word, bare

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prsm_policy.places import Place
    from prsm_policy.shell.tree import Piece, Pieces

    Values = Mapping[str, "Value"]

_MAX_CHOICES = 64  # values of the variables of one command, each with each
_PATTERN = frozenset("*?")
_COUNTS = (0, 1, 2, 3)  # words that one expansion may become: all that makes a difference
_SPLIT_TEXT = re.compile(r"[\w./@:+,=%*?\s-]*")
_HASH_AROUND = re.compile(r"[A-Za-z0-9]?[A-Za-z0-9/]*(?:[~^]\d*)*|(?:[~^]\d*)*\.{2,3}[\w/~^]*")
_TOLD = word_set("? # $")
# What the shell itself sets; anything else may hold a secret.
_PUBLIC = word_set("PWD RANDOM SECONDS LINENO UID EUID PPID BASH_VERSION")


class NotSafeError(Exception):
    """A part of a text may do more than look; the message says which."""


@dataclass(frozen=True, slots=True)
class Value:
    """What a variable holds: one of these words, or else a text as a command prints it."""

    words: tuple[Word, ...] = ()
    output: Output | None = None


def numeric(value: Value) -> bool:
    """Return whether a value is a number, which nothing evaluates any further."""
    if value.output is not None:
        return value.output.kind is Kind.NUMBER
    return all(re.fullmatch(r"0|[1-9]\d{0,14}", word.text) for word in value.words)


class Words:
    """The words that the pieces of a command stand for, one of all the values at a time.

    `outputs` are what the substitutions print, by their identity. With `joined` nothing is split,
    as between double brackets.
    """

    def __init__(
        self, values: Values, place: Place, outputs: Mapping[int, Output], *, joined: bool = False
    ) -> None:
        self._values = values
        self._place = place
        self._outputs = outputs
        self._joined = joined

    def alternatives(self, words: Iterable[Pieces]) -> Iterator[tuple[Word, ...]]:
        """Yield all that the words together may be; NotSafeError if that cannot be told."""
        words = tuple(words)
        names = sorted({name for pieces in words for name in _names(pieces)} & set(self._values))
        options = [self._choices(self._values[name]) for name in names]
        count = 1
        for each in options:
            count *= len(each)
        if count > _MAX_CHOICES:
            raise NotSafeError("it has too many values")
        for chosen in product(*options):
            choice = dict(zip(names, chosen, strict=True))
            found: list[tuple[Word, ...]] = [()]
            for pieces in words:
                ends = self._expanded(pieces, choice)
                found = [(*begin, *end) for begin in found for end in ends]
                if len(found) > _MAX_CHOICES:
                    raise NotSafeError("it has too many values")
            yield from found

    def _choices(self, value: Value) -> tuple[Word | Output, ...]:
        return value.words if value.output is None else (value.output,)

    def _expanded(
        self, pieces: Pieces, choice: Mapping[str, Word | Output]
    ) -> list[tuple[Word, ...]]:
        if len(pieces) == 1:
            return self._whole(pieces[0], choice)
        return [(self._joined_word(pieces, choice),)]

    def _whole(self, piece: Piece, choice: Mapping[str, Word | Output]) -> list[tuple[Word, ...]]:
        if isinstance(piece, Literal):
            return [(piece.word,)]
        known = self._part(piece, choice)
        is_split = not (self._joined or isinstance(piece, Number) or piece.quoted)
        if isinstance(known, Word):
            return [self._split(known)] if is_split else [(known,)]
        if known.kind is Kind.NUMBER and not (known.many and is_split):
            return [(_unknown(Kind.NUMBER),)]
        if isinstance(piece, Substitution) and piece.file:
            return [(_unknown(Kind.NAME),)]  # of a pipe that the shell made
        kind = self._kind(known, Passage.WORDS if is_split else Passage.LINES)
        if not is_split:
            return [(_unknown(kind),)]
        return [(_unknown(kind),) * count for count in _COUNTS]

    def _joined_word(self, pieces: Pieces, choice: Mapping[str, Word | Output]) -> Word:
        """Return what several pieces are together."""
        whole = Word("")
        kinds: set[Kind] = set()
        for piece in pieces:
            known = piece.word if isinstance(piece, Literal) else self._part(piece, choice)
            if isinstance(known, Word):
                is_split = not isinstance(piece, (Literal, Number)) and not piece.quoted
                if is_split and not self._joined and not simple_pattern(known.text):
                    raise NotSafeError("a word may become several")
                if "[" in known.text and not isinstance(piece, Literal):
                    raise NotSafeError("a pattern is put together")
                if is_split and not _PATTERN.isdisjoint(known.text):
                    known = replace(known, glob=True, pattern=known.text)
                whole += known
            else:
                kinds.add(self._kind(known, Passage.LINES))
                is_split = not isinstance(piece, (Literal, Number)) and not piece.quoted
                if is_split and not self._joined and known.kind not in {Kind.NUMBER, Kind.HASH}:
                    whole = replace(whole, glob=True)  # it may become several words
        if not kinds:
            return replace(whole, kind=None)
        return replace(whole, exact=False, kind=_kind_of_parts(whole.text, kinds, pieces))

    def _part(self, piece: Piece, choice: Mapping[str, Word | Output]) -> Word | Output:
        if isinstance(piece, Number):
            if not all(numeric(self._value(name)) for name in piece.names):
                raise NotSafeError("a number is computed from what may be none")
            return Output(Kind.NUMBER)
        if isinstance(piece, Substitution):
            return self._outputs[id(piece)]
        if isinstance(piece, Literal):
            return piece.word
        if piece.name in _TOLD or piece.counted:
            if piece.counted:
                self._value(piece.name)
            return Output(Kind.NUMBER)
        if piece.name in _PUBLIC and piece.name not in choice:
            return ANYTHING
        self._value(piece.name)
        return ANYTHING if piece.derived else choice[piece.name]

    def _value(self, name: str) -> Value:
        if name not in self._values:
            raise NotSafeError(f"{name} may hold a secret")
        return self._values[name]

    def _split(self, word: Word) -> tuple[Word, ...]:
        """Return the words that an unquoted value becomes."""
        if not _SPLIT_TEXT.fullmatch(word.text):
            raise NotSafeError("it cannot be told what a value becomes")
        if word.glob:
            last = word.text.rpartition("/")[2]
            names = Names(self._place.folders, (last,) if simple_pattern(last) else None)
            if not names.are_harmless(self._place, Passage.WORDS):
                raise NotSafeError("a name may become several words")
            return (word,)
        return tuple(map(bare, word.text.split()))

    def _kind(self, output: Output, passage: Passage) -> Kind:
        if output.names is None:
            return output.kind
        return Kind.NAME if output.names.are_harmless(self._place, passage) else Kind.TEXT


def _names(pieces: Pieces) -> Iterator[str]:
    for piece in pieces:
        if isinstance(piece, Variable):
            yield piece.name


def _unknown(kind: Kind) -> Word:
    return Word("", exact=False, kind=kind)


def _kind_of_parts(text: str, kinds: set[Kind], pieces: Pieces) -> Kind:
    """Return the kind of a word that is put together, of whose parts one is unknown."""
    if kinds == {Kind.NAME} and text == "./" and len(pieces) == 2:
        return Kind.NAME
    if kinds <= {Kind.NUMBER, Kind.HASH} and _HASH_AROUND.fullmatch(text):
        return Kind.HASH
    return Kind.TEXT
