"""Where variables of a structured text get their values from."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.safe.values import NotSafeError
from prsm_policy.shell.tree import (
    Choice,
    Either,
    Fed,
    Literal,
    Loop,
    Pipeline,
    Sequence,
    Simple,
    Subshell,
    Substitution,
)
from prsm_policy.shell.words import Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prsm_policy.shell.tree import Pieces, Step

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


def may_be_set(name: str) -> bool:
    """Return whether no program does anything else because a variable of that name is set."""
    is_free = _VARIABLE.fullmatch(name) is not None or name in _LOUD
    return is_free and not _TAKEN.fullmatch(name)


def read_names(step: Step) -> tuple[str, ...] | None:
    """Return the variables that a `read` sets, None for any other step.

    Raises NotSafeError for one that does more.
    """
    if not isinstance(step, Simple) or not step.words:
        return None
    first = step.words[0][0]
    if not isinstance(first, Literal) or first.word.text != "read":
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


def is_raw(condition: Step) -> bool:
    """Return whether a `read` takes backslashes for letters."""
    return isinstance(condition, Simple) and condition.words[1:2] == ((Literal(Word("-r")),),)


def sources(step: Step) -> Mapping[str, list[Source]]:
    """Return where each variable gets its values from, anywhere in a text."""
    found: defaultdict[str, list[Source]] = defaultdict(list)
    stack: list[Step | Pieces] = [step]
    while stack:
        each = stack.pop()
        if isinstance(each, tuple):
            stack += [piece.body for piece in each if isinstance(piece, Substitution)]
            continue
        for name, source in _bound(each):
            found[name].append(source)
        stack += _inside(each)
    return found


def _bound(step: Step) -> list[tuple[str, Source]]:
    """Return the variables that one step sets."""
    if isinstance(step, Simple) and not step.words:
        return [(name, _literal([value], is_pattern=False)) for name, value in step.assigned]
    if isinstance(step, Loop) and step.name:
        return [(step.name, _literal(step.words, is_pattern=True))]
    if isinstance(step, Loop) and step.condition is not None:
        return [(name, None) for name in read_names(step.condition) or ()]
    return []


def _inside(step: Step) -> list[Step | Pieces]:
    """Return the steps and the words that a step is made of."""
    match step:
        case Simple(words, assigned):
            return [*words, *(value for _, value in assigned)]
        case Fed(body, reads, feeds):
            return [body, *reads, *feeds]
        case Sequence(parts) | Pipeline(parts) | Either(parts):
            return list(parts)
        case Subshell(body):
            return [body]
        case Choice(branches, subject):
            return [subject, *(part for branch in branches for part in branch if part is not None)]
        case Loop(body, _, words, condition):
            return [body, *words, *([] if condition is None else [condition])]


def _literal(words: Iterable[Pieces], *, is_pattern: bool) -> Source:
    known: list[Word] = []
    for pieces in words:
        if len(pieces) != 1 or not isinstance(pieces[0], Literal) or pieces[0].word.tilde:
            return None
        word = pieces[0].word
        known.append(word if is_pattern else replace(word, glob=False))
    return tuple(known)
