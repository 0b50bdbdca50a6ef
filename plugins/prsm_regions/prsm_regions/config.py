"""The provider's section of the configuration, checked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from prsm_core import ConfigError
from prsm_core.kit import (
    Key,
    Parser,
    model_of_keys,
    parse_choice,
    parse_flag,
    parse_text,
    read_section,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_AGENTS = 5  # of one run at once; settings may lower it, and nothing raises it
MAX_RETRIES = 2


class Richness(StrEnum):
    """How much each agent is told: its task; the outline of its region; what it builds on."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Reads(StrEnum):
    """What becomes of a read in another's region: told afterwards; or denied, for an outline."""

    LOG = "log"
    INTERFACE = "interface"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionsConfig:
    """How a plan is made and carried out."""

    planner: str | None = None  # the model that splits the intent; None: the run's own
    model: str | None = None  # of subtasks for which nothing else says one; None: the planner's
    effort: Richness = Richness.MEDIUM  # of the prompts
    max_agents: int = MAX_AGENTS  # at once, 1 to 5
    retries: int = MAX_RETRIES  # of failed subtasks, 0 to 2
    worktrees: bool = False  # one for each subtask, which only its region leaves
    reads: Reads = Reads.LOG  # in regions of others
    # Who chooses the model of a subtask, writes its prompt, says how it ended: `rules`, or a model.
    select: str = "rules"
    build: str = "rules"
    judge: str = "rules"

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> RegionsConfig:
        """Check the section. Raises ConfigError for an unknown key, or a wrong value."""
        return cls(**read_section(_SECTION, settings, KEYS))


def _whole(low: int, high: int, description: str) -> Key:
    def parse(where: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ConfigError(f"{where}: a number from {low} to {high} is needed, not {value!r}")
        return value

    return Key(parse, description, {"type": "integer", "minimum": low, "maximum": high})


def _choice(kind: type[StrEnum], description: str) -> Key:
    def parse(where: str, value: Any) -> StrEnum:
        return kind(parse_choice(*kind)(where, value))

    return Key(parse, description, {"enum": [*kind]})


_SECTION = "providers.regions"
_TEXT: Mapping[str, Any] = {"type": "string", "minLength": 1}
KEYS: dict[str, Parser] = {
    "build": Key(parse_text, "Who writes each subtask's prompt: rules, or a model.", _TEXT),
    "effort": _choice(Richness, "How rich the prompts are."),
    "judge": Key(parse_text, "Who says how a subtask ended: rules, or a model.", _TEXT),
    "max_agents": _whole(1, MAX_AGENTS, "How many agents work at once."),
    "model": Key(parse_text, "The model of subtasks for which nothing else says one.", _TEXT),
    "planner": Key(parse_text, "The model that splits an intent into subtasks.", _TEXT),
    "retries": _whole(0, MAX_RETRIES, "How often failed subtasks are tried again."),
    "worktrees": Key(parse_flag, "Whether each subtask has a worktree of its own."),
    "reads": _choice(Reads, "What becomes of reads in regions of others."),
    "select": Key(parse_text, "Who chooses each subtask's model: rules, or a model.", _TEXT),
}

SETTINGS = model_of_keys("RegionsSettings", KEYS, RegionsConfig.from_settings)
