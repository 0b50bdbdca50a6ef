"""What an edit would change, as far as the arguments of its tool say: counts, and lines to read."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

EDIT_TOOLS = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Write"})
_OLD, _NEW = ("old_string", "find", "old_text"), ("new_string", "replace", "new_text", "new_source")
_WHOLE = ("content", "text")
_MARKS = ("@@", "*** ")  # of a unified diff, of a patch as Codex writes it
_HEADS = ("+++", "---")
_KEPT = 400  # lines: more is counted, and not kept
_WIDEST = 1000  # characters of a line that is kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Lines that an edit adds and takes away, and how they read.

    `is_whole` tells that all of a file is written: what was in it before, if anything, is not
    counted. `lines` begin with "+", "-" or " ", or are a diff's own; there may be `more`.
    """

    added: int
    removed: int
    is_whole: bool = False
    lines: tuple[str, ...] = ()
    more: int = 0

    @property
    def counts(self) -> str:
        """In words: `+3 -1`, `+40, the whole file`."""
        return (
            f"+{self.added}, the whole file" if self.is_whole else f"+{self.added} -{self.removed}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "added": self.added,
            "removed": None if self.is_whole else self.removed,
            "lines": list(self.lines),
            "more": self.more,
        }

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Change:
        """Build it from the values of `to_dict`."""
        removed = told.get("removed")
        return cls(
            added=told["added"],
            removed=removed or 0,
            is_whole=removed is None,
            lines=tuple(told.get("lines") or ()),
            more=told.get("more") or 0,
        )


def find_change(tool: str, arguments: Mapping[str, Any]) -> Change | None:
    """Return what an edit changes; None for another tool, and where its arguments do not say."""
    if tool not in EDIT_TOOLS:
        return None
    edits = arguments.get("edits")
    if isinstance(edits, str):
        edits = _parsed(edits)
    if isinstance(edits, list) and edits:
        lines = [line for edit in edits if isinstance(edit, dict) for line in _replaced(edit)]
        return _change(lines) if lines else None
    if isinstance(diff := arguments.get("diff"), str) and diff.strip():
        return _of_diff(diff.splitlines())
    if lines := list(_replaced(arguments)):
        return _change(lines)
    if (text := _text(arguments, _WHOLE)) is not None:
        return _change([f"+{line}" for line in text.splitlines()], is_whole=True)
    return None


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _replaced(edit: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a text that is put in another's place."""
    old, new = _text(edit, _OLD), _text(edit, _NEW)
    if old is None and new is None:
        return
    before, after = (old or "").splitlines(), (new or "").splitlines()
    for number, line in enumerate(difflib.unified_diff(before, after, lineterm="", n=1)):
        if number > 1 and not line.startswith("@@"):
            yield line


def _text(arguments: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next((arguments[name] for name in names if isinstance(arguments.get(name), str)), None)


def _of_diff(lines: list[str]) -> Change:
    if not any(line.startswith((*_MARKS, "+", "-")) for line in lines):
        return _change([f"+{line}" for line in lines], is_whole=True)  # of a new file, as it is
    return _change(lines)


def _change(lines: Sequence[str], *, is_whole: bool = False) -> Change:
    told = [line for line in lines if is_whole or not line.startswith(_HEADS)]
    return Change(
        added=sum(line.startswith("+") for line in told),
        removed=sum(line.startswith("-") for line in told),
        is_whole=is_whole,
        lines=tuple(line[:_WIDEST] for line in lines[:_KEPT]),
        more=max(0, len(lines) - _KEPT),
    )
