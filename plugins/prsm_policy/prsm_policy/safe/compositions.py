"""Whether all that a structured text runs is safe, whatever its variables and commands turn out.

Values are followed, not run: a variable is each word that a loop or an assignment gives it, and
what a command prints is a number, a hash, names of files, or any text. The places where a command
may run only grow, except behind what a subshell did.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain, product
from math import prod
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.safe.producers import (
    ANYTHING,
    Names,
    Output,
    Passage,
    carried_by_xargs,
    output_of,
    simple_pattern,
)
from prsm_policy.shell import tree
from prsm_policy.shell.script import Assignment, Command
from prsm_policy.shell.words import Kind, Word, bare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prsm_policy.places import Place
    from prsm_policy.shell.tree import Piece, Pieces, Step

    Judge = Callable[[Command, Place], bool]
    Values = Mapping[str, "Value"]
    Choice = Mapping[str, Word | Output]

MAX_CHECKS = 300  # of commands with all their values, for one text
_OF_FILES = word_set("-e -f -d -s -r -w -x -nt -ot")  # tests that another process can change
_FLOW = word_set(": true false break continue exit")

# Names that no program reads from its environment, as far as is known.
_VARIABLE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*|[A-Z]")
_LOUD = word_set(
    "FILE FILES DIR DIRS COUNT BASE BRANCH COMMIT SHA HASH REV MERGE_BASE NAME LINE ROOT RESULT"
)
_TAKEN = re.compile(
    r".*_proxy|(?:npm|pnpm|yarn|pip|bundle|cargo|git|ld|rvm)_.*|histchars|auto_resume"
)
_DELIMITED = ["-d", ""]

Source = tuple[Word, ...] | None  # the words that a variable may be, None for what is computed
_MAX_CHOICES = 64  # values of the variables of one command, each with each
_PATTERN = frozenset("*?")
_COUNTS = (0, 1, 2, 3)  # words that one expansion may become: all that makes a difference
_SPLIT_TEXT = re.compile(r"[\w./@:+,=%*?\s-]*")
_HASH_AROUND = re.compile(r"[A-Za-z0-9]?[A-Za-z0-9/]*(?:[~^]\d*)*|(?:[~^]\d*)*\.{2,3}[\w/~^]*")
_TOLD = word_set("? # $")
# What the shell itself sets; anything else may hold a secret.
_PUBLIC = word_set("PWD RANDOM SECONDS LINENO UID EUID PPID BASH_VERSION")


@dataclass(frozen=True, slots=True)
class _State:
    """Where the next step runs, and which variables are set by then."""

    place: Place
    values: Mapping[str, Value] = field(default_factory=dict)

    def moved(self, place: Place) -> _State:
        """Return the state in another place, where names that were found are of other files."""
        if place == self.place:
            return self
        values = {
            name: Value(output=ANYTHING) if value.output and value.output.names else value
            for name, value in self.values.items()
        }
        return _State(place, values)

    def bound(self, name: str, value: Value) -> _State:
        return replace(self, values={**self.values, name: value})


def is_safe_structure(step: Step, place: Place, is_safe: Judge, takes_feed: Judge) -> bool:
    """Return whether a text of this structure does nothing but look.

    `is_safe` judges one simple command in a place, `takes_feed` whether a safe one may be fed any
    text.
    """
    try:
        _Walk(step, is_safe, takes_feed).walk(step, _State(place))
    except NotSafeError:
        return False
    return True


def _waits(loop: tree.Loop) -> bool:
    """Return whether a loop only sleeps until a file is there, or gone."""
    condition = loop.condition
    if not isinstance(condition, tree.Simple) or not isinstance(loop.body, tree.Simple):
        return False
    words = [
        pieces[0].word.text
        for pieces in (*condition.words, *loop.body.words[:1])
        if len(pieces) == 1 and isinstance(pieces[0], tree.Literal)
    ]
    is_test = words[:1] in (["["], ["test"], ["[["]) and words[-1:] == ["sleep"]
    return is_test and not _OF_FILES.isdisjoint(words)


class _Walk:
    def __init__(self, step: Step, is_safe: Judge, takes_feed: Judge) -> None:
        self._is_safe = is_safe
        self._takes_feed = takes_feed
        self._left = MAX_CHECKS
        self._loops = 0
        self._outputs: dict[int, Output] = {}
        self._sources = sources(step)

    def walk(self, step: Step, state: _State, incoming: Output = ANYTHING) -> _State:
        """Return the state behind a step; raise NotSafeError if it may do more than look."""
        self._left -= 1
        if self._left < 0:
            raise NotSafeError("it runs too much")
        match step:
            case tree.Simple():
                return self._simple(step, state, incoming)
            case tree.Fed():
                return self._fed(step, state)
            case tree.Sequence(steps):
                return reduce(lambda now, each: self.walk(each, now, incoming), steps, state)
            case tree.Either():
                return self._either(step, state, incoming)
            case tree.Pipeline(parts):
                return self._pipeline(parts, state, incoming)
            case tree.Subshell(body):
                self._inside(body, state, incoming)
                return state
            case tree.Choice():
                return self._choice(step, state, incoming)
            case tree.Loop():
                return self._loop(step, state, incoming)

    def _either(self, step: tree.Either, state: _State, incoming: Output) -> _State:
        state = self.walk(step.steps[0], state, incoming)
        for each in step.steps[1:]:
            state = state.moved(self.walk(each, state, incoming).place)
        return state

    def _inside(self, body: Step, state: _State, incoming: Output = ANYTHING) -> _State:
        """Walk through what has a shell of its own, where a loop outside does not matter."""
        loops, self._loops = self._loops, 0
        after = self.walk(body, state, incoming)
        self._loops = loops
        return after

    def _pipeline(self, parts: tuple[Step, ...], state: _State, incoming: Output) -> _State:
        place = state.place
        for part in parts:
            now = state.moved(place)
            after = self.walk(part, now, incoming)
            incoming = self._printed(part, now, incoming)
            place = after.place
        return state.moved(place)

    def _printed(self, step: Step, state: _State, incoming: Output) -> Output:
        if isinstance(step, tree.Pipeline):
            for part in step.parts:
                incoming = self._printed(part, state, incoming)
            return incoming
        if isinstance(step, tree.Fed) and isinstance(step.body, tree.Simple):
            printed = self._printed(step.body, state, ANYTHING)
            return printed if printed.kind is Kind.NUMBER else ANYTHING
        if not isinstance(step, tree.Simple) or not step.words:
            return ANYTHING
        found = list(self._words(step, state).alternatives(step.words))
        if len(found) != 1:
            return ANYTHING
        return output_of(Command(found[0]), state.place, incoming)

    def _choice(self, step: tree.Choice, state: _State, incoming: Output) -> _State:
        subject = [step.subject] if step.subject else []
        self._check_values(subject, state)
        lasting = state
        now = state
        for at, (condition, body) in enumerate(step.branches):
            if condition is not None:
                now = self.walk(condition, now, incoming)
                lasting = now if at == 0 else lasting
            now = now.moved(self.walk(body, now, incoming).place)
        return lasting.moved(now.place)

    def _loop(self, step: tree.Loop, state: _State, incoming: Output) -> _State:
        inner = state
        if step.name:
            inner = self._bind(step.name, self._loop_value(step.words, state), state)
        self._loops += 1
        if step.condition is not None:
            read = read_names(step.condition)
            if read is None:
                if not _waits(step):
                    raise NotSafeError("it cannot be told when the loop ends")
                inner = self.walk(step.condition, state, incoming)
            is_whole = read is not None and len(read) == 1 and _is_raw(step.condition)
            whole = incoming if is_whole and incoming.kind is Kind.NAME else ANYTHING
            for name in read or ():
                inner = self._bind(name, Value(output=whole), inner)
        self.walk(step.body, inner)
        self._loops -= 1
        return state

    def _loop_value(self, words: tuple[Pieces, ...], state: _State) -> Value:
        self._check_pieces(words, state)
        if len(words) == 1 and len(words[0]) == 1:
            piece = words[0][0]
            if isinstance(piece, tree.Number):
                return Value(output=Output(Kind.NUMBER))
            if isinstance(piece, tree.Substitution) and not piece.file:
                return Value(output=replace(self._outputs[id(piece)], many=False))
        alternatives = self._make_words(state).alternatives(words)
        known = list(chain.from_iterable(alternatives))
        if not all(word.exact and not word.tilde for word in known):
            return Value(output=ANYTHING)
        return Value(words=tuple(dict.fromkeys(known)))

    def _bind(self, name: str, value: Value, state: _State) -> _State:
        if not _may_be_set(name):
            raise NotSafeError(f"{name} may change what programs do")
        others = self._sources[name]
        if len(others) > 1:  # whichever it is by then
            words = [word for source in others for word in source or ()]
            value = Value(output=ANYTHING) if None in others else Value(tuple(words))
        return state.bound(name, value)

    def _simple(self, step: tree.Simple, state: _State, incoming: Output) -> _State:
        if not step.words:
            return self._assign(step, state)
        if read_names(step) is not None:
            raise NotSafeError("what is read is only known when it runs")
        after = state
        for command in self._commands(step, state):
            if command.texts[0] == "cd":  # into whichever folder a variable holds
                after = after.moved(self._entered(command, state, after.place))
            else:
                self._check(command, state.place, incoming)
        return after

    def _assign(self, step: tree.Simple, state: _State) -> _State:
        for name, pieces in step.assigned:
            self._check_pieces([pieces], state)
            alternatives = self._make_words(state, joined=True).alternatives([pieces])
            words = list(chain.from_iterable(alternatives))
            if len(pieces) == 1 and isinstance(pieces[0], tree.Substitution):
                value = Value(output=self._outputs[id(pieces[0])])
            elif all(word.exact and not word.tilde for word in words):
                # What is assigned is no pattern until it stands unquoted somewhere.
                value = Value(words=tuple(replace(word, glob=False) for word in words))
            else:
                numbers = all(word.kind is Kind.NUMBER for word in words)
                value = Value(output=Output(Kind.NUMBER) if numbers else ANYTHING)
            state = self._bind(name, value, state)
        return state

    def _entered(self, command: Command, state: _State, others: Place) -> Place:
        """Return the folders it may be in behind a `cd`, those it may be in anyway included."""
        if self._loops or command.assigned or len(command.words) != 2:
            raise NotSafeError("it cannot be told which folder it is in")
        place = state.place.entered(command.words[1]) if command.words[1].exact else None
        place = place and place.joined(others)
        if place is None:
            raise NotSafeError("it may leave the workspace")
        return place

    def _commands(self, step: tree.Simple, state: _State) -> Iterable[Command]:
        self._check_pieces(step.words, state)
        self._check_pieces((pieces for _, pieces in step.assigned), state)
        assigned: list[Assignment] = []
        for name, pieces in step.assigned:
            found = list(self._make_words(state).alternatives([pieces]))
            if len(found) != 1 or len(found[0]) != 1 or not found[0][0].known:
                raise NotSafeError(f"{name} is only known when it runs")
            assigned.append(Assignment(name, found[0][0]))
        if len(step.words[0]) != 1 or not isinstance(step.words[0][0], tree.Literal):
            raise NotSafeError("the program is only known when it runs")
        for words in self._words(step, state).alternatives(step.words):
            if not words or not words[0].known:
                raise NotSafeError("the program is only known when it runs")
            yield Command(words, tuple(assigned))

    def _words(self, step: tree.Simple, state: _State) -> Words:
        first = step.words[0][0]
        name = first.word.text if isinstance(first, tree.Literal) else ""
        if name in {"[", "test"} and any(map(_may_split, step.words)):
            raise NotSafeError("a test may get other operands")
        return self._make_words(state, joined=name == "[[")

    def _make_words(self, state: _State, *, joined: bool = False) -> Words:
        return Words(state.values, state.place, self._outputs, joined=joined)

    def _check(self, command: Command, place: Place, incoming: Output) -> None:
        self._left -= 1
        if self._left < 0:
            raise NotSafeError("it runs too much")
        is_flow = command.texts[0] in _FLOW and not command.assigned
        if is_flow and all(word.exact and word.text.isdigit() for word in command.words[1:]):
            return
        if command.texts[0] == "xargs":
            inner = carried_by_xargs(command, place, incoming)
            if inner is None or not all(self._is_safe(each, place) for each in inner):
                raise NotSafeError("it cannot be told what xargs runs")
        elif not self._is_safe(command, place):
            raise NotSafeError(f"{command.name} may do more than look")

    def _fed(self, step: tree.Fed, state: _State) -> _State:
        self._check_pieces(step.reads, state)
        self._check_values(step.feeds, state)
        incoming = self._opened(step.reads, state)
        if step.feeds:
            self._check_feeds(step.body, state)
        return self.walk(step.body, state, incoming)

    def _opened(self, reads: tuple[Pieces, ...], state: _State) -> Output:
        """Return what comes in from files and from what is substituted for one."""
        incoming = ANYTHING
        for pieces in reads:
            if len(pieces) == 1 and isinstance(pieces[0], tree.Substitution) and pieces[0].file:
                incoming = self._outputs[id(pieces[0])] if len(reads) == 1 else ANYTHING
                continue
            for words in self._make_words(state).alternatives([pieces]):
                is_told = len(words) == 1 and words[0].exact
                if not is_told or not state.place.are_ordinary(words):
                    raise NotSafeError("what it reads may hold a secret")
        return incoming

    def _check_feeds(self, body: Step, state: _State) -> None:
        """Raise NotSafeError unless what is fed can be any text."""
        if isinstance(body, tree.Loop) and body.condition is not None:
            return
        if not isinstance(body, tree.Simple) or not body.words:
            raise NotSafeError("it cannot be told what is fed")
        for command in self._commands(body, state):
            if not self._takes_feed(command, state.place):
                raise NotSafeError(f"it cannot be told what {command.name} does with its input")

    def _check_values(self, words: Iterable[Pieces], state: _State) -> None:
        """Walk through what is substituted; raise NotSafeError if a value cannot be told."""
        self._check_pieces(words, state)
        for _ in self._make_words(state, joined=True).alternatives(words):
            pass

    def _check_pieces(self, words: Iterable[Pieces], state: _State) -> None:
        """Walk through all that is substituted, and note what that prints."""
        for pieces in words:
            for piece in pieces:
                if isinstance(piece, tree.Substitution):
                    after = self._inside(piece.body, state)
                    is_one = isinstance(piece.body, (tree.Simple, tree.Pipeline, tree.Fed))
                    is_one = is_one and after.place == state.place
                    printed = self._printed(piece.body, state, ANYTHING) if is_one else ANYTHING
                    if piece.file and printed.kind is not Kind.NAME:
                        printed = Output(Kind.TEXT)
                    self._outputs[id(piece)] = printed


def _may_split(pieces: Pieces) -> bool:
    return any(
        not isinstance(piece, (tree.Literal, tree.Number)) and not piece.quoted for piece in pieces
    ) or any(isinstance(piece, tree.Literal) and piece.word.glob for piece in pieces)


def _may_be_set(name: str) -> bool:
    """Return whether no program does anything else because a variable of that name is set."""
    is_free = _VARIABLE.fullmatch(name) is not None or name in _LOUD
    return is_free and not _TAKEN.fullmatch(name)


def read_names(step: Step) -> tuple[str, ...] | None:
    """Return the variables that a `read` sets, None for any other step.

    Raises NotSafeError for one that does more.
    """
    if not isinstance(step, tree.Simple) or not step.words:
        return None
    first = step.words[0][0]
    if not isinstance(first, tree.Literal) or first.word.text != "read":
        return None
    words = _literal(step.words, is_pattern=True)
    separators = {name: _literal([value], is_pattern=True) for name, value in step.assigned}
    texts = [word.text for word in words or ()]
    if words is None or not all(word.known for word in words):
        raise NotSafeError("it cannot be told what is read")
    if separators and (separators.keys() != {"IFS"} or None in separators.values()):
        raise NotSafeError("it cannot be told what is read")
    names = texts[2:] if texts[1:2] == ["-r"] else texts[1:]
    names = names[2:] if names[:2] == _DELIMITED else names
    if not names or any(name.startswith("-") for name in names):
        raise NotSafeError("it cannot be told what is read")
    return tuple(names)


def _is_raw(condition: Step) -> bool:
    return isinstance(condition, tree.Simple) and condition.words[1:2] == (
        (tree.Literal(Word("-r")),),
    )


def sources(step: Step) -> Mapping[str, list[Source]]:
    """Return where each variable gets its values from, anywhere in a text."""
    found: defaultdict[str, list[Source]] = defaultdict(list)
    stack: list[Step | Pieces] = [step]
    while stack:
        each = stack.pop()
        if isinstance(each, tuple):
            stack += [piece.body for piece in each if isinstance(piece, tree.Substitution)]
            continue
        for name, source in _bound(each):
            found[name].append(source)
        stack += _inside(each)
    return found


def _bound(step: Step) -> list[tuple[str, Source]]:
    if isinstance(step, tree.Simple) and not step.words:
        return [(name, _literal([value], is_pattern=False)) for name, value in step.assigned]
    if isinstance(step, tree.Loop) and step.name:
        return [(step.name, _literal(step.words, is_pattern=True))]
    if isinstance(step, tree.Loop) and step.condition is not None:
        return [(name, None) for name in read_names(step.condition) or ()]
    return []


def _inside(step: Step) -> list[Step | Pieces]:
    """Return the steps and the words that a step is made of."""
    match step:
        case tree.Simple(words, assigned):
            return [*words, *(value for _, value in assigned)]
        case tree.Fed(body, reads, feeds):
            return [body, *reads, *feeds]
        case tree.Sequence(parts) | tree.Pipeline(parts) | tree.Either(parts):
            return list(parts)
        case tree.Subshell(body):
            return [body]
        case tree.Choice(branches, subject):
            return [subject, *(part for branch in branches for part in branch if part is not None)]
        case tree.Loop(body, _, words, condition):
            return [body, *words, *([] if condition is None else [condition])]


def _literal(words: Iterable[Pieces], *, is_pattern: bool) -> Source:
    known: list[Word] = []
    for pieces in words:
        if len(pieces) != 1 or not isinstance(pieces[0], tree.Literal) or pieces[0].word.tilde:
            return None
        word = pieces[0].word
        known.append(word if is_pattern else replace(word, glob=False))
    return tuple(known)


class NotSafeError(Exception):
    """A part of a text may do more than look; the message says which."""


@dataclass(frozen=True, slots=True)
class Value:
    """What a variable holds: one of these words, or else a text as a command prints it."""

    words: tuple[Word, ...] = ()
    output: Output | None = None

    @property
    def choices(self) -> tuple[Word | Output, ...]:
        """All that it may be."""
        return self.words if self.output is None else (self.output,)


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
        pieces = chain.from_iterable(words)
        used = {piece.name for piece in pieces if isinstance(piece, tree.Variable)}
        names = sorted(used & set(self._values))
        options = [self._values[name].choices for name in names]
        if prod(map(len, options)) > _MAX_CHOICES:
            raise NotSafeError("it has too many values")
        for chosen in product(*options):
            choice = dict(zip(names, chosen, strict=True))
            found: list[tuple[Word, ...]] = [()]
            for word in words:
                ends = self._expanded(word, choice)
                found = [(*begin, *end) for begin in found for end in ends]
                if len(found) > _MAX_CHOICES:
                    raise NotSafeError("it has too many values")
            yield from found

    def _expanded(self, pieces: Pieces, choice: Choice) -> list[tuple[Word, ...]]:
        if len(pieces) == 1:
            return self._whole(pieces[0], choice)
        return [(self._joined_word(pieces, choice),)]

    def _whole(self, piece: Piece, choice: Choice) -> list[tuple[Word, ...]]:
        if isinstance(piece, tree.Literal):
            return [(piece.word,)]
        known = self._part(piece, choice)
        is_split = not (self._joined or isinstance(piece, tree.Number) or piece.quoted)
        if isinstance(known, Word):
            return [self._split(known)] if is_split else [(known,)]
        if known.kind is Kind.NUMBER and not (known.many and is_split):
            return [(_unknown(Kind.NUMBER),)]
        if isinstance(piece, tree.Substitution) and piece.file:
            return [(_unknown(Kind.NAME),)]  # of a pipe that the shell made
        kind = self._kind(known, Passage.WORDS if is_split else Passage.LINES)
        if not is_split:
            return [(_unknown(kind),)]
        return [(_unknown(kind),) * count for count in _COUNTS]

    def _joined_word(self, pieces: Pieces, choice: Choice) -> Word:
        whole = Word("")
        kinds: set[Kind] = set()
        for piece in pieces:
            known = piece.word if isinstance(piece, tree.Literal) else self._part(piece, choice)
            is_pattern = not isinstance(piece, (tree.Literal, tree.Number)) and not piece.quoted
            is_split = is_pattern and not self._joined
            if isinstance(known, Word):
                if is_split and not simple_pattern(known.text):
                    raise NotSafeError("a word may become several")
                if "[" in known.text and not isinstance(piece, tree.Literal):
                    raise NotSafeError("a pattern is put together")
                if is_pattern and not _PATTERN.isdisjoint(known.text):
                    known = replace(known, glob=True, pattern=known.text)
                whole += known
            else:
                kinds.add(self._kind(known, Passage.LINES))
                if is_split and known.kind not in {Kind.NUMBER, Kind.HASH}:
                    whole = replace(whole, glob=True)  # it may become several words
        if not kinds:
            return replace(whole, kind=None)
        return replace(whole, exact=False, kind=_kind_of_parts(whole.text, kinds, pieces))

    def _part(self, piece: Piece, choice: Choice) -> Word | Output:
        if isinstance(piece, tree.Number):
            if not all(numeric(self._value(name)) for name in piece.names):
                raise NotSafeError("a number is computed from what may be none")
            return Output(Kind.NUMBER)
        if isinstance(piece, tree.Substitution):
            return self._outputs[id(piece)]
        if isinstance(piece, tree.Literal):
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


def _unknown(kind: Kind) -> Word:
    return Word("", exact=False, kind=kind)


def _kind_of_parts(text: str, kinds: set[Kind], pieces: Pieces) -> Kind:
    """Return the kind of a word that is put together, of whose parts one is unknown."""
    if kinds == {Kind.NAME} and text == "./" and len(pieces) == 2:
        return Kind.NAME
    if kinds <= {Kind.NUMBER, Kind.HASH} and _HASH_AROUND.fullmatch(text):
        return Kind.HASH
    return Kind.TEXT
