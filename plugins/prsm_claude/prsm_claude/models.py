"""Which models there are: as the CLI lists them, or else as its program names them."""

from __future__ import annotations

import mmap
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from prsm_core import ModelInfo

_NAME = re.compile(rb"claude-(?:opus|sonnet|haiku)-\d[\w.@-]*")
_ID = re.compile(r"claude-[a-z0-9][\w.@-]*", re.ASCII)
_PART = re.compile(rb"[\w.@-]")  # beside a name: it is a part of a longer one
_SHORT = frozenset({"default", "best", "sonnet", "opus", "haiku", "opusplan"})
_LONG = "[1m]"  # behind a name: with the longer context
_OTHER_SPELLING = re.compile(r"@|-v\d|-20\d{6}|[.-]$")  # of other clouds, or of one day
_OLD = re.compile(r"claude-\w+-3(?:[.-]|$)")


def listed(info: Mapping[str, Any]) -> list[ModelInfo]:
    """Return the models in the CLI's greeting, the default one first."""
    entries = info.get("models")
    given = entries if isinstance(entries, list) else ()
    return [_model(entry) for entry in given if isinstance(entry, Mapping) and entry.get("value")]


def _model(entry: Mapping[str, Any]) -> ModelInfo:
    efforts = entry.get("supportedEffortLevels")
    name, resolved = entry.get("displayName"), entry.get("resolvedModel")
    return ModelInfo(
        model_id=str(entry["value"]),
        display_name=str(name) if name else None,
        reasoning_efforts=tuple(map(str, efforts)) if isinstance(efforts, list) else (),
        aliases=(resolved,) if isinstance(resolved, str) and resolved else (),
    )


def is_known(program: str, model: str) -> bool:
    """Return whether Claude Code takes a name that it does not list; it may read the whole file.

    It has short names for models, and its file holds the ids of all that it knows, old ones too.
    """
    plain = model.removesuffix(_LONG)
    if plain in _SHORT:
        return True
    return _ID.fullmatch(plain) is not None and _names(program, plain.encode())


def _names(program: str, model: bytes) -> bool:
    """Return whether a program's file holds a name that is no part of a longer one."""
    found = shutil.which(program)
    if found is None or Path(found).stat().st_size == 0:
        return False
    with (
        Path(found).open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        start = content.find(model)
        while start >= 0:
            end = start + len(model)
            around = content[max(start - 1, 0) : start] + content[end : end + 1]
            if not _PART.search(around):
                return True
            start = content.find(model, end)
    return False


def scanned(program: str) -> list[ModelInfo]:
    """Return the models that a program's file names; it reads hundreds of megabytes."""
    found = shutil.which(program)
    if found is None:
        return []
    with Path(found).open("rb") as file:
        if file.seek(0, 2) == 0:
            return []
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            names = {match.decode() for match in _NAME.findall(content)}
    return [ModelInfo(model_id=name) for name in current(names)]


def current(names: Iterable[str]) -> list[str]:
    """Return the names that are of use here, sorted: none of old families or other clouds."""
    return sorted(name for name in names if not (_OTHER_SPELLING.search(name) or _OLD.match(name)))
