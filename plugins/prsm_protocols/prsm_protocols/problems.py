"""What is wrong with pages: each problem has its file and line, and says what to do."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from prsm_core import OrchestrationError
from prsm_protocols.page import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST = 20  # problems that an error tells; more help nobody


class Weight(IntEnum):
    """How bad a problem is: a note is none, a warning is an error where it is to be strict."""

    NOTE = 0
    WARNING = 1
    ERROR = 2


class Problem(Record, frozen=True):
    """A problem of a page, and where it stands; `line` begins at 1."""

    file: str
    line: int
    text: str
    weight: Weight = Weight.ERROR

    def __str__(self) -> str:
        kind = "" if self.weight is Weight.ERROR else f"{self.weight.name.lower()}: "
        return f"{self.file}:{self.line}: {kind}{self.text}"


class ProtocolError(OrchestrationError):
    """Pages that cannot be used; `problems` are those that keep them from it."""

    code = "protocol"

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        told = [str(problem) for problem in self.problems[:MOST]]
        if len(self.problems) > MOST:
            told.append(f"… and {len(self.problems) - MOST} more")
        super().__init__(
            "\n".join(told), hint="mend the pages; `python -m prsm_protocols lint` reads them again"
        )


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a question for the nearest of the known names, as the end of a sentence."""
    from difflib import get_close_matches  # a sink imports this in every run

    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""
