"""What a command gave back, as far as it says something new: times and the like are masked."""

from __future__ import annotations

import re
from functools import cache
from hashlib import blake2b
from typing import ClassVar

from prsm_core.domain.record import Labelled

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_UNIT = r"(?:ns|[µu]s|ms|s|secs?|seconds?|mins?|minutes?|hrs?|hours?|m|h|d|days?)"
# No count of a thing, no line number and no size is among them: these are what a result says.
_MASKS = "|".join(
    (
        # dates and times of day, also as seconds since 1970
        r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d++)?)?"
        r"(?:\s?(?:Z|[+-]\d\d:?\d\d))?",
        r"\b\d{1,2}/\d{1,2}/\d{2,4}\b",
        rf"\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?\s)?(?:{_MONTH}\s{{1,2}}\d{{1,2}}"
        rf"|\d{{1,2}}\s{_MONTH}(?!\s{{1,2}}\d{{1,2}}\b))\b(?:,?\s\d{{4}}\b)?",
        r"(?<![\w:.])\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d++)?(?:\s?(?:AM|PM|UTC|GMT)\b)?(?![\w:])"
        r"(?:\s\d{4}\b)?",
        r"(?<![\w.])(?:1[5-9]|2\d)\d{8}(?:\d{3}|\d{6}|\d{9})?(?:\.\d++)?\b",
        # durations
        rf"(?<![\w.])(?:\d++(?:[.,]\d++)?\s?{_UNIT}(?![A-Za-z])[ :,]?|\d++(?:\.\d++)?[hm])+",
        r"(?i:\b(?:time|took|elapsed|duration)\b\W{1,8})\d++(?:[.,:]\d++)*+"
        rf"(?:\s?{_UNIT}(?![A-Za-z]))?",
        # processes, addresses, and names made up for one run
        r"(?i:\b(?:p?pid|pgid|process(?: group)?(?: id| pgid)?)\b\W{0,3}\d++)",
        r"(?<=\bline )\d++: +\d++(?= [A-Z])",
        r"==\d++==|(?<=\w)\[\d++\](?=[:\s]|$)|^\[\d++\][+-]?\s+\d++",
        r"\b0x[0-9a-fA-F]{4,}",
        r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b",
        r"/(?:private/)?(?:var/)?tmp/[^\s'\",:;()\[\]<>]++|/var/folders/[^\s'\",:;()\[\]<>]++",
        r"\btmp[._]?(?=[a-z_]*+[A-Z\d]|\w{8}\b)\w{6,12}\b|\bpytest-\d++",
        r"(?<=\w)\.(?=[A-Za-z]*+\d|[a-z]*+[A-Z]|[A-Z]*+[a-z])(?=\w*[A-Z\d])[A-Za-z0-9]{6,10}\b",
    )
)
_MAY_BE_MASKED = re.compile(r"\d|tmp|\w\.[A-Za-z]{6}")  # most lines are not
# How tools tell the status, or that nothing was written; the rest is the command's own.
_CODE = re.compile(r"exit code:? (-?\d+)", re.IGNORECASE)
_NOTHING = re.compile(r"\((?:\w+ completed with )?no output\)|\(empty\)", re.IGNORECASE)


class Outcome(Labelled, frozen=True, eq=False):
    """How a command ended, in a form that is equal for equal results; `label` says it in words."""

    digest: bytes
    label: str

    _labels: ClassVar[frozenset[str]] = frozenset({"label"})


DENIED = Outcome(b"denied", "was refused")


def outcome_of(*, succeeded: bool, texts: tuple[str | None, ...], error: str | None) -> Outcome:
    """Return a command's outcome by its output and failure; the order of lines does not count."""
    lines = [line for text in texts for line in (text or "").splitlines()]
    status = "succeeded" if succeeded else _failure(lines, error)
    told = (line for line in lines if not (_CODE.fullmatch(line) or _NOTHING.fullmatch(line)))
    masked = sorted(filter(None, map(_masked, told)))
    text = "\n".join((status, *masked)).encode("utf-8", "surrogatepass")
    return Outcome(blake2b(text, digest_size=16).digest(), status)


@cache
def _masks() -> re.Pattern[str]:
    """Return what is masked, as a pattern: made with the first line that may hold any."""
    return re.compile(_MASKS, re.MULTILINE)


def _masked(line: str) -> str:
    return (_masks().sub("*", line) if _MAY_BE_MASKED.search(line) else line).rstrip()


def _failure(lines: list[str], error: str | None) -> str:
    for text in (error or "", *lines[:1], *lines[-1:]):
        if code := _CODE.match(text):
            return f"failed with exit code {code[1]}"
    return "failed"
