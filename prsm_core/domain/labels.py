"""Labels: what people and programs say of agents, as texts by name.

Anybody who may set labels sets names without a slash. Only the program `regions` sets
`regions/state`, so that it can rely on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prsm_core.errors import PrsmError

MOST = 64  # labels of one agent
NAME_BYTES = 128
TEXT_BYTES = 4 * 1024
ALL_BYTES = 16 * 1024  # of all names and texts of one agent

_WORD = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_NAME = re.compile(rf"{_WORD}(/{_WORD})*")
_NAMES = "a name is words of letters, digits, _, . and -, with a slash between them"


def relabelled(
    labels: Mapping[str, str],
    changes: Mapping[str, str | None],
    *,
    owner: str | None,
    error: type[PrsmError],
) -> dict[str, str]:
    """Return labels with changes laid over them; None takes one away.

    `owner` is the program that changes them, None for a person. Raises `error`, with code
    `bad_labels` and a hint, for wrong changes or ones of another owner.
    """
    if not isinstance(changes, dict | Mapping):
        raise _refusal(error, f"labels are a {type(changes).__name__}", "give texts by name")
    for name, text in changes.items():
        if (problem := _problem(name, text, owner)) is not None:
            raise _refusal(error, *problem)
    laid = {name: text for name, text in {**labels, **changes}.items() if text is not None}
    if len(laid) > MOST:
        cure = f"take some away: an agent has {MOST} at most, with those that it inherits"
        raise _refusal(error, f"these are {len(laid)} labels", cure)
    size = _size("".join([*laid, *laid.values()]))
    if size > ALL_BYTES:
        cure = f"say less, or keep it in a file: all of an agent take {ALL_BYTES} bytes at most"
        raise _refusal(error, f"these labels take {size} bytes", cure)
    return dict(sorted(laid.items()))


def _problem(name: object, text: object, owner: str | None) -> tuple[str, str] | None:
    if not isinstance(name, str) or not _is_name(name):
        return f"{name!r} is no name of a label", _NAMES
    if len(name) > NAME_BYTES:  # all of its characters are ASCII
        return f"the name {name[:40]}… has {len(name)} bytes", f"{NAME_BYTES} are the most"
    program, slash, _ = name.partition("/")
    if slash and program != owner:
        cure = "choose a name without a slash"
        if owner is not None:
            cure = f"{cure}, or one that begins with {owner}/"
        return f"the label {name} is the program {program}'s alone to set", cure
    if text is None:
        return None
    if not isinstance(text, str):
        return f"label {name} is a {type(text).__name__}", "the value of a label is a text"
    if _size(text) > TEXT_BYTES:
        return f"label {name} has {_size(text)} bytes", f"{TEXT_BYTES} are the most"
    return None


@lru_cache(256)  # agents have few names, and some of them set one again and again
def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _refusal(error: type[PrsmError], message: str, cure: str) -> PrsmError:
    return error(message, hint=cure, code="bad_labels")
