"""What all records that plugins register share."""

from __future__ import annotations

import re
from typing import ClassVar

from prsm_core.domain.record import Record

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")


def check_name(kind: str, name: str) -> None:
    """Raise ValueError unless `name` is a lower-case word of letters, digits, - and _."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{kind}: {name!r} is not a name (lower-case letters, digits, - and _)")


class Registration(Record, frozen=True, kw_only=True):
    """What a plugin registers: under a name of its own, with a line on it for people."""

    word: ClassVar[str]

    name: str
    summary: str

    def __post_init__(self) -> None:
        """Check the name."""
        check_name(self.word, self.name)
