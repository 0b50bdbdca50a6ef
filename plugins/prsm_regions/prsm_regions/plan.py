"""The compiler: from what a planner wrote to a plan that can be carried out. Pure.

All that is wrong is collected, so that a planner mends it in one answer. What has one sane meaning
is taken, with a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from prsm_regions.drafts import Draft, PlanError, read_drafts
from prsm_regions.ground import Ground, is_below, touch

# The slash is what tells a region from any other thing that something is used for.
_SAID = re.compile(
    r"(?:\buse|\band|,)\s+(?P<model>[\w][\w./:@+-]*)\s+for\s+(?P<region>/[\w./@+-]*)", re.IGNORECASE
)
_FIRST = re.compile(r"\buse\s+[\w][\w./:@+-]*\s+for\s+/", re.IGNORECASE)

Problem = Callable[[str], str | None]
"""Takes a model's name; returns what is wrong with it, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtask:
    """One piece of the work, and the region that is its alone."""

    index: int  # its place in the plan
    name: str
    description: str
    region: str
    depends_on: tuple[int, ...] = ()  # places before or behind it
    model: str | None = None  # that was asked for; None: nobody has
    checks: tuple[str, ...] = ()
    is_file: bool = False  # its region


@dataclass(frozen=True, slots=True)
class Plan:
    """Subtasks in the planner's order, and what was mended of them."""

    subtasks: tuple[Subtask, ...]
    warnings: tuple[str, ...] = ()

    def batches(self) -> tuple[tuple[Subtask, ...], ...]:
        """Return the subtasks by batches: batch N depends only on batches 0 to N-1."""
        levels: dict[int, int] = {}
        while len(levels) < len(self.subtasks):
            ready = [one for one in self.subtasks if one.index not in levels]
            ready = [one for one in ready if all(need in levels for need in one.depends_on)]
            for one in ready:
                levels[one.index] = 1 + max((levels[need] for need in one.depends_on), default=-1)
        count = 1 + max(levels.values(), default=-1)
        return tuple(
            tuple(one for one in self.subtasks if levels[one.index] == level)
            for level in range(count)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a plan has to keep to."""

    model_problem: Problem = lambda _: None
    tokens_left: int | None = None  # of the run; None: as many as it takes
    tokens_each: int = 0  # of a subtask, as far as is known


def compile_plan(
    text: str, ground: Ground, overrides: Sequence[Override] = (), limits: Limits | None = None
) -> Plan:
    """Return the plan that a planner's answer means. Raises PlanError with all that is wrong."""
    limits = limits or Limits()
    drafts = read_drafts(text)
    problems = [*_doubled(drafts)]
    regions = _regions(drafts, ground, problems)
    _keep_apart(drafts, regions, problems)
    needs = [_needs(place, drafts, problems) for place in range(len(drafts))]
    asked = [
        _model(draft, region, overrides) for draft, region in zip(drafts, regions, strict=True)
    ]
    problems += _unknown(drafts, asked, limits)
    problems += _beyond(len(drafts), limits)
    if problems:
        raise PlanError(*problems)
    kept, warnings = _without_circles(drafts, needs)
    warnings += _unused(overrides, regions)
    subtasks = (
        Subtask(
            index=place,
            name=draft.name.strip(),
            description=draft.description.strip(),
            region=region or ".",
            depends_on=tuple(sorted(kept[place])),
            model=model,
            checks=draft.checks,
            is_file=region is not None and ground.holds_file(region),
        )
        for place, (draft, region, model) in enumerate(zip(drafts, regions, asked, strict=True))
    )
    return Plan(tuple(subtasks), tuple(warnings))


def _doubled(drafts: Sequence[Draft]) -> Iterable[str]:
    names = [draft.name.strip() for draft in drafts]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        places = ", ".join(str(place) for place, one in enumerate(names) if one == name)
        yield f"subtasks {places} are all named {name!r}: give each a name of its own"


def _regions(drafts: Sequence[Draft], ground: Ground, problems: list[str]) -> Sequence[str | None]:
    regions: list[str | None] = []
    for draft in drafts:
        try:
            regions.append(ground.place(draft.region))
        except ValueError as error:
            problems.append(f"subtask {draft.name!r}: {error}")
            regions.append(None)
    return regions


def _keep_apart(
    drafts: Sequence[Draft], regions: Sequence[str | None], problems: list[str]
) -> None:
    """Note each pair of regions that touch: nobody could say whose a file of both is."""
    for second, region in enumerate(regions):
        for first in range(second):
            other = regions[first]
            if region is None or other is None or not touch(region, other):
                continue
            names = f"{drafts[first].name!r} and {drafts[second].name!r}"
            what = f"{other!r} and {region!r}" if other != region else f"{region!r} both"
            problems.append(
                f"subtasks {names} would write {what}: give each a region that holds "
                "nothing of the other's, or make one subtask of them"
            )


def _needs(place: int, drafts: Sequence[Draft], problems: list[str]) -> tuple[int, ...]:
    """Return the places that a subtask depends on, in the order in which it names them."""
    names = {draft.name.strip(): index for index, draft in enumerate(drafts)}
    found: list[int] = []
    for need in drafts[place].depends_on:
        index = need if isinstance(need, int) else names.get(need.strip())
        if index is None or not 0 <= index < len(drafts):
            near = get_close_matches(str(need), names, n=1)
            known = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
            problems.append(
                f"subtask {drafts[place].name!r} depends on {need!r}, which is none: {known}"
            )
        elif index not in found:
            found.append(index)
    return tuple(found)


def _model(draft: Draft, region: str | None, overrides: Sequence[Override]) -> str | None:
    wanted = None if region is None else model_for(region, tuple(overrides))
    return wanted or draft.model or None


def _unknown(drafts: Sequence[Draft], asked: Sequence[str | None], limits: Limits) -> Iterable[str]:
    for draft, model in zip(drafts, asked, strict=True):
        why = None if model is None else limits.model_problem(model)
        if why is not None:
            yield f"subtask {draft.name!r}: {why}"


def _beyond(count: int, limits: Limits) -> Iterable[str]:
    wanted = count * limits.tokens_each
    if limits.tokens_left is not None and wanted > limits.tokens_left:
        yield (
            f"{count} subtasks take about {wanted} tokens, and {limits.tokens_left} are left of "
            "the budget: make fewer of them"
        )


def _without_circles(
    drafts: Sequence[Draft], needs: Sequence[Sequence[int]]
) -> tuple[Sequence[set[int]], list[str]]:
    """Return the dependencies that can be kept, taken in order, and what is said of the others."""
    kept: list[set[int]] = [set() for _ in drafts]
    warnings = []
    for place, wanted in enumerate(needs):
        for need in wanted:
            if need == place or _reaches(need, place, kept):
                warnings.append(
                    f"{drafts[place].name!r} does not wait for {drafts[need].name!r}: "
                    "they would wait for each other"
                )
            else:
                kept[place].add(need)
    return kept, warnings


def _reaches(start: int, goal: int, kept: Sequence[set[int]]) -> bool:
    seen, queue = {start}, [start]
    while queue:
        here = queue.pop()
        if here == goal:
            return True
        queue += kept[here] - seen
        seen |= kept[here]
    return False


def _unused(overrides: Sequence[Override], regions: Sequence[str | None]) -> list[str]:
    return [
        f"no subtask has its region in {one.region}: nothing uses {one.model} for it"
        for one in overrides
        if not any(model_for(region, (one,)) for region in regions if region is not None)
    ]


@dataclass(frozen=True, slots=True)
class Override:
    """A model for a region of the workspace, and all below it."""

    region: str
    model: str


def read_overrides(intent: str) -> tuple[Override, ...]:
    """Return what an intent says, in its order; the last one that fits a region holds."""
    if not _FIRST.search(intent):
        return ()
    return tuple(
        Override(_region(found["region"]), found["model"]) for found in _SAID.finditer(intent)
    )


def model_for(region: str, overrides: tuple[Override, ...]) -> str | None:
    """Return the model that a person wants for a region; None where they said nothing of it."""
    fitting = [one.model for one in overrides if is_below(region, one.region)]
    return fitting[-1] if fitting else None


def _region(text: str) -> str:
    return text.strip("/").rstrip(".").rstrip("/") or "."
