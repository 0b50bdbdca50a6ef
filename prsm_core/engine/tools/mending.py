"""Mend the arguments of models by their tool's schema, before anything reads them.

Only what has a single reading is mended. The tool refuses the rest.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

import msgspec

from prsm_core.domain.record import Record
from prsm_core.engine.turns.call import Mended
from prsm_core.kit.quotation import quote_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Schema = Mapping[str, Any]
    OtherWords = Mapping[str, tuple[str, "Word"]]

OTHER_WORDS = "otherWords"  # in the schema of a property: what other tools call it
_SHOWN_NOTES = 5
_SHOWN_NAME = 60  # characters of a name that a model made up
_ALIKE = 0.75  # from here on two names are one, misspelt
# Gemini CLI offers it with every tool, reads it itself and passes it on.
_OF_VENDORS = frozenset({"wait_for_previous"})
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_TRUTHS = {"true": True, "false": False}


class Word(Record, frozen=True):
    """What another tool's word for a property means here.

    `values` mean something else: a value of another property, or nothing. A label only describes
    the call, and can be dropped if the property is given.
    """

    values: dict[str, tuple[str, str] | None] = msgspec.field(default_factory=dict)
    is_label: bool = False


def mend(tool: str, schema: Schema, arguments: Mapping[str, Any]) -> Mended:
    """Return arguments that fit the tool's schema better; fitting ones stay as they are."""
    notes: list[str] = []
    mended = _mended(schema, arguments, "", notes)
    if not notes:
        return Mended(mended)
    more = len(notes) - _SHOWN_NOTES
    shown = [*notes[:_SHOWN_NOTES], *([f"{more} more like this"] if more > 0 else ())]
    return Mended(mended, f"How prsm read your call of {tool}: {'; '.join(shown)}.")


def find_similar(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that another one resembles: misspelt, in the plural, or longer."""
    from difflib import SequenceMatcher  # only for a call that is wrong

    words, letters = _words(name), _letters(name)
    for other in known:
        theirs = _letters(other)
        if words & _words(other) or sorted(letters) == sorted(theirs):
            return other
        if SequenceMatcher(None, letters, theirs).ratio() >= _ALIKE:
            return other
    return None


def _words(name: str) -> set[str]:
    return {_singular(part.lower()) for part in _PARTS.findall(name)}


def _singular(word: str) -> str:
    return word.removesuffix("s") if len(word) > len("ids") else word


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


# Who writes one of these wants less to be done, or only somewhere, or what only a program may say.
# With it left out a child might do more than its parent asked for.
_RESTRICTS = re.compile(
    "access?|allow|allowed|allowlist|approval|continue|deny|denied|denylist|dir|directory|disallow"
    "|disallowed|except|exclude|file|folder|forbid|forbidden|isolation|label|limit|max|network"
    "|only|path|permission|permitted|read|readonly|region|restrict|restricted|root|safe|sandbox"
    "|sandboxed|scope|workdir|workspace|writable|write"
)


def _mended(schema: Schema, value: Any, where: str, notes: list[str]) -> Any:
    kinds = _kinds(schema)
    if isinstance(value, str) and kinds and "string" not in kinds:
        value = _read(value, kinds)
    if isinstance(value, float) and value.is_integer() and "number" not in kinds:
        return int(value) if "integer" in kinds else value
    if isinstance(value, dict) and "object" in kinds:
        return _object(schema, value, where, notes)
    items = schema.get("items")
    if isinstance(value, list) and "array" in kinds and isinstance(items, dict):
        return [_mended(items, item, f"{where}{n}.", notes) for n, item in enumerate(value)]
    return value


def _kinds(schema: Schema) -> Sequence[str]:
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return (kinds,)
    return kinds if isinstance(kinds, list) else ()


def _read(text: str, kinds: Sequence[str]) -> Any:
    plain = text.strip()
    if "boolean" in kinds and plain.lower() in _TRUTHS:
        return _TRUTHS[plain.lower()]
    try:
        value = json.loads(plain)
    except (ValueError, RecursionError):
        return text
    return value if any(_IS_OF[kind](value) for kind in kinds if kind in _IS_OF) else text


def _is_number(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


_IS_OF: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and value == int(value),
    "null": lambda value: value is None,
}


def _object(
    schema: Schema, value: Mapping[str, Any], where: str, notes: list[str]
) -> dict[str, Any]:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    other_words = _other_words(properties)
    mended = {}
    for name, item in _reworded(properties, other_words, value, where, notes).items():
        if name in properties:
            mended[name] = _mended(properties[name], item, f"{where}{name}.", notes)
        elif isinstance(others, dict):
            mended[name] = _mended(others, item, f"{where}{name}.", notes)
        elif others is False and name in _OF_VENDORS:
            continue
        elif others is False and _may_be_left_out(name, properties, other_words):
            notes.append(f"there is no argument {_shown(where, name)}, it was left out")
        else:
            mended[name] = item
    return mended


def _other_words(properties: Schema) -> OtherWords:
    return {
        name: (target, msgspec.convert(word, Word))
        for target, schema in properties.items()
        for name, word in schema.get(OTHER_WORDS, {}).items()
    }


def _may_be_left_out(name: object, properties: Schema, other_words: OtherWords) -> bool:
    if not isinstance(name, str) or name in other_words:
        return False
    is_restriction = any(map(_RESTRICTS.fullmatch, _words(name)))
    return not is_restriction and find_similar(name, properties) is None


def _reworded(
    properties: Schema,
    other_words: OtherWords,
    value: Mapping[str, Any],
    where: str,
    notes: list[str],
) -> Mapping[str, Any]:
    mended = dict(value)
    for name, (target, word) in other_words.items():
        if name not in value or name in properties:
            continue
        item = value[name]
        meant = (target, item)
        if isinstance(item, str) and item.lower() in word.values:
            special = word.values[item.lower()]
            if special is None:
                del mended[name]
                notes.append(f"{_shown(where, name)} {quote_word(item)} was left out")
                continue
            meant = special
        target, item = meant
        if target not in mended:
            mended[target] = item
            notes.append(f"{_shown(where, name)} was taken as {_shown(where, target)}")
        elif word.is_label:
            notes.append(f"{_shown(where, name)} was left out")
        elif mended[target] != item:
            continue
        del mended[name]
    return mended


def _shown(where: str, name: str) -> str:
    whole = f"{where}{name}"
    return quote_word(whole if len(whole) <= _SHOWN_NAME else f"{whole[:_SHOWN_NAME]}…")
