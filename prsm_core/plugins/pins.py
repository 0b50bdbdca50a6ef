"""Which versions of the core a distribution was written for."""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PIN = re.compile(r"prsm[-_.]+core\s*(?:\[[^]]*\]\s*)?\(?([^;()@]*)\)?\s*", re.IGNORECASE)
_BOUND = re.compile(r"(<=|>=|<|>)\s*(\d[\w.]*)")
_BOUNDS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def core_pins(requirements: Iterable[str]) -> Iterator[str]:
    """Yield a distribution's version clauses on the core, but for those with a marker."""
    for requirement in requirements:
        pin = _PIN.fullmatch(requirement)
        if pin and pin[1].strip():
            yield pin[1].strip()


def satisfies(version: str, pin: str) -> bool:
    """Hold a version against the bounds of a pin; other clauses are the installer's affair."""
    if not version[:1].isdigit():  # a source tree that is not installed
        return True
    bounds = [_BOUND.fullmatch(clause.strip()) for clause in pin.split(",")]
    return all(_BOUNDS[b[1]](_release(version), _release(b[2])) for b in bounds if b)


def _release(version: str) -> list[int]:
    """Return the numbers of a release without trailing zeros: 0.2, 0.2.0 and 0.2.0.dev1 agree."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return numbers
