"""What a check found, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"  # PRSM works, but not as it should
    BROKEN = "broken"  # something does not work


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of `prsm doctor`; whatever is not ok has a cure."""

    check: str
    status: Status
    message: str
    cure: str | None = None


def ok(check: str, message: str) -> Finding:
    """Return a finding that needs nothing."""
    return Finding(check=check, status=Status.OK, message=message)


def warning(check: str, message: str, cure: str) -> Finding:
    """Return a finding that should be mended."""
    return Finding(check=check, status=Status.WARNING, message=message, cure=cure)


def broken(check: str, message: str, cure: str) -> Finding:
    """Return a finding that must be mended."""
    return Finding(check=check, status=Status.BROKEN, message=message, cure=cure)
