"""How long a vendor's message asks to wait: in seconds, minutes and hours, or until a time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_UNIT = r"ms|d(?:ays?)?|h(?:(?:ou)?rs?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?"
_PART = rf"(\d+(?:\.\d+)?)\s*({_UNIT})(?![a-z])"
_LENGTH = re.compile(
    rf"(?:retry|try again|resets?)\s+(?:in|after)\s+((?:{_PART}(?:[\s,]|and)*)+)", re.IGNORECASE
)
_ONE = re.compile(_PART, re.IGNORECASE)
_HEADER = re.compile(r"retry.?after\D{0,3}(\d+(?:\.\d+)?)(?!\S*[a-z])", re.IGNORECASE)
_TIME = re.compile(
    r"(?:retry|try again|resets?) at\s+(?:([a-z]{3})[a-z]* (\d{1,2})(?:st|nd|rd|th)?, (\d{4}) )?"
    r"(\d{1,2}):(\d\d) ?([ap])\.?m",
    re.IGNORECASE,
)
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def read_pause(message: str, now: float | None = None) -> float | None:
    """Return the seconds that a message asks to wait, None if it does not say.

    It may say `try again in 1.2s`, `resets after 3h4m`, `retry-after: 7`, or, if the present time
    is given (Unix seconds), `try again at 5:30 PM` and `at Nov 30th, 2026 5:30 PM` in local time.
    """
    if length := _LENGTH.search(message):
        return sum(float(count) * _seconds(unit) for count, unit in _ONE.findall(length[1]))
    if header := _HEADER.search(message):
        return float(header[1])
    told = None if now is None else _TIME.search(message)
    return None if told is None or now is None else _until(told, now)


def _seconds(unit: str) -> float:
    unit = unit.lower()
    return _SECONDS["ms" if unit == "ms" else unit[0]]


def _until(told: re.Match[str], now: float) -> float | None:
    month, day, year, hour, minute, half = told.groups()
    here = datetime.fromtimestamp(now, tz=UTC).astimezone()
    hours = int(hour) % 12 + 12 * (half.lower() == "p")
    try:
        at = here.replace(hour=hours, minute=int(minute), second=0, microsecond=0)
        if month is not None:
            at = at.replace(int(year), _MONTHS.index(month.lower()) + 1, int(day))
    except ValueError:
        return None
    if month is None and at <= here:
        at += timedelta(days=1)
    # The zone may count otherwise by then: what is told is the time on the wall.
    return max(at.replace(tzinfo=None).astimezone().timestamp() - now, 0.0)
