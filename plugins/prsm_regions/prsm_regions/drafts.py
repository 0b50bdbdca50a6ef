"""What a planner wrote, as drafts of subtasks: JSON, by itself, in a fence, or amid prose.

What is no plan raises PlanError, whose problems each say what to write instead.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from prsm_core import PrsmError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_TEXT = 256 * 1024  # characters that a planner may write
MAX_SUBTASKS = 50
_LOOKS = 100  # at so many places of a text a plan may begin
_FENCE = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)
_BRACE = re.compile(r"\{")


class PlanError(PrsmError):
    """A plan that cannot be carried out; `problems` are all that was found, each with its cure."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems), code="bad_plan")
        self.problems = problems


# A planner is told this docstring, with the schema.
class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """One subtask as a planner writes it.

    Attributes:
        name: Of this subtask alone, in a few words.
        description: All that whoever carries it out has to know of it.
        region: The folder or file that is its alone to write, relative to the workspace.
        depends_on: Subtasks that must be completed first: their names, or places from 0.
        model: Who is to carry it out; None = nobody in particular.
        checks: Commands that show that it is done.
    """

    name: str
    description: str
    region: str
    depends_on: tuple[str | int, ...] = ()
    model: str | None = None
    checks: tuple[str, ...] = ()


def read_drafts(text: str) -> tuple[Draft, ...]:
    """Return the drafts of a planner's answer; raise PlanError for what holds none."""
    if len(text) > MAX_TEXT:
        size = f"the answer has {len(text)} characters"
        raise PlanError(f"{size}: write a plan of at most {MAX_TEXT}")
    found = next(_plans(text), None)
    if found is None:
        how = 'answer with one JSON object, {"subtasks": [...]}, alone'
        raise PlanError(f"no plan was found: {how}")
    rows = found["subtasks"]
    if not isinstance(rows, list) or not rows:
        raise PlanError("`subtasks` has to be a list of at least one subtask")
    if len(rows) > MAX_SUBTASKS:
        raise PlanError(f"there are {len(rows)} subtasks: write at most {MAX_SUBTASKS}")
    return _checked(rows)


def _checked(rows: Sequence[Any]) -> tuple[Draft, ...]:
    drafts, problems = [], []
    for place, row in enumerate(rows):
        try:
            draft = msgspec.convert(row, Draft)
        except msgspec.ValidationError as error:
            problems.append(f"subtask {place}: {error}")
            continue
        blank = [key for key in ("name", "description") if not getattr(draft, key).strip()]
        problems += [f"subtask {place}: `{key}` is blank: say something" for key in blank]
        drafts.append(draft)
    if problems:
        raise PlanError(*problems)
    return tuple(drafts)


def _plans(text: str) -> Iterator[dict[str, Any]]:
    """Yield whatever in a text is a plan by its form."""
    for value in _values(text):
        if isinstance(value, dict) and "subtasks" in value:
            yield value


def _values(text: str) -> Iterator[Any]:
    # Prose is no JSON, and what is nested too deep is no plan.
    for piece in (text, *_FENCE.findall(text)):
        with suppress(ValueError, RecursionError):
            value = json.loads(piece)
            yield {"subtasks": value} if isinstance(value, list) else value
    decoder = json.JSONDecoder()
    for brace in islice(_BRACE.finditer(text), _LOOKS):
        with suppress(ValueError, RecursionError):
            yield decoder.raw_decode(text, brace.start())[0]
