"""Judgements that rules make: who carries a subtask out, what they are told, how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import UNCHECKED
from prsm_core.kit import names_file
from prsm_regions.signatures import (
    AgentSelect,
    Evaluation,
    ProgressEval,
    Prompt,
    PromptBuild,
    Selection,
)

if TYPE_CHECKING:
    from prsm_regions.drafts import Draft

BOUNDARY = (
    "You are working in {region}. If you need types or signatures from outside your region, "
    "describe what you need instead of reading the file directly."
)
_HOW = (
    'Describe it by ask_parent, as "I need the type signature of NAME from PATH": the answer '
    "comes at once."
)


def select(given: AgentSelect) -> Selection:
    """Return what was wanted, else the default."""
    if given.wanted:
        return Selection(model=given.wanted, reason="as wanted")
    return Selection(model=given.default, reason="the default")


def build_prompt(given: PromptBuild) -> Prompt:
    """Return the task, where it may be done, and what else is known."""
    subtask = given.subtask
    parts = [
        f"{subtask.name}\n\n{subtask.description}",
        f"{BOUNDARY.format(region=shown_region(subtask))} {_HOW}",
        f"It is one part of this, and others do the rest: {given.intent}",
        _titled("What your region holds now:", given.outline),
        _titled("What you build upon, as it is:", given.interfaces),
        _titled("It is done when these pass:", "\n".join(subtask.checks)),
        _titled("It was tried before, and failed. Do not fail for the same reason:", given.failure),
        _titled("Here is the information you requested:", given.answers),
    ]
    return Prompt(prompt="\n\n".join(part for part in parts if part))


def with_boundary(built: Prompt, subtask: Draft) -> Prompt:
    """Return a prompt that says where its region ends, as all have to."""
    boundary = BOUNDARY.format(region=shown_region(subtask))
    if boundary in built.prompt:
        return built
    return Prompt(prompt=f"{built.prompt}\n\n{boundary} {_HOW}")


def shown_region(subtask: Draft) -> str:
    """Return a region as agents are told of it: /ui/** is a folder, /ui/app.py a file."""
    region = subtask.region.strip("/")
    if region in {"", "."}:
        return "/**"
    return f"/{region}" if names_file(subtask.region) else f"/{region}/**"


def judge(given: ProgressEval) -> Evaluation:
    """Return how a subtask ended: a claim that something contradicts is partial.

    That nothing has checked it contradicts nothing.
    """
    if not given.success:
        return Evaluation(state="failed", reason=given.error or given.summary or "it failed")
    against = tuple(gap for gap in given.gaps if gap != UNCHECKED)
    reasons = [
        _listed("it wrote beside its region, which was not taken over", given.outside),
        _listed("it does not merge with what is there", given.conflicts),
        _listed("what it claims could not be confirmed", against),
        _listed("it still asks for", given.asks),
    ]
    why = "; ".join(reason for reason in reasons if reason)
    return Evaluation(state="partial" if why else "completed", reason=why)


def _listed(what: str, names: tuple[str, ...]) -> str:
    return f"{what}: {', '.join(names)}" if names else ""


def _titled(title: str, text: str) -> str:
    return f"{title}\n{text}" if text.strip() else ""
