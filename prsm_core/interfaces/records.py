"""Checks that every registration record shares."""

from __future__ import annotations

import re

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")


def check_name(kind: str, name: str) -> None:
    """Raise ValueError unless `name` is a lower-case word of letters, digits, - and _."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{kind}: {name!r} is not a name (lower-case letters, digits, - and _)")
