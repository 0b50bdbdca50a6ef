"""What a run may use, tokens and money, how much of a model's window, and what counts as stuck."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, StrictBool

from prsm_core.config.values import Count, CountOrZero, Factor, Section, Share, Text
from prsm_core.domain.budgets import Budget


class ContextSettings(Section):
    """How much of a model's context window is filled, and what is done when it is full."""

    compaction: Literal["auto", "overflow", "never"] = Field(
        default="auto",
        description="When a conversation is summarised, and goes on with the summary. auto: before "
        "a turn that would be more than `fill`, unless the vendor does it itself, and when a model "
        "refuses a prompt as too long; overflow: only then; never: the agent fails then.",
    )
    fill: Share = Field(
        default=0.8, description="The part of the window that is filled; the answer has the rest."
    )
    keep: Share = Field(
        default=0.25,
        description="The part of that which the newest messages may have that are kept as they "
        "are when a conversation is summarised.",
    )
    references: bool = Field(
        default=True,
        description="Whether `@path` in what a person says shows the model the file, the lines or "
        "the folder of the workspace that it names.",
    )
    skills: bool = Field(
        default=True,
        description="Whether agents are told which skills there are: folders with a SKILL.md, of "
        "the user and of a workspace that is trusted.",
    )
    summary_model: Text | None = Field(
        default=None,
        description="The model that writes summaries, a cheap one, say: an alias, provider/model, "
        "or an id; the agent's own if it is left out.",
    )


class PriceSettings(Section):
    """What a million tokens of a model costs, in US dollars."""

    input: Factor = Field(description="Of what the model is sent.")
    output: Factor = Field(description="Of what it answers, thinking included.")
    cached_input: Factor | None = Field(
        default=None, description="Of what a cache gave; as other input if it is left out."
    )


class BudgetSettings(Section):
    """What one run may use up. 80 % of it is told; 100 % begins no agent and no turn any more.

    Turns that run then end at their model's next step, as failures that keep what was said.
    """

    tokens: Count | None = Field(
        default=None, description="Tokens of all agents together, as their providers tell them."
    )
    usd: Factor | None = Field(
        default=None,
        description="Cost in US dollars, as far as the providers tell it or `prices` says it; one "
        "that tells no cost is only warned of.",
    )
    turns: Count | None = Field(default=None, description="Turns of all agents together.")
    spawns: Count | None = Field(
        default=None, description="Agents that agents spawn or restart; the master is not counted."
    )
    let_turns_finish: bool = Field(
        default=False,
        description="A turn that runs when tokens or dollars are used up goes on to its own end.",
    )

    prices: Mapping[Text, PriceSettings] = Field(
        default_factory=dict,
        description="What tokens cost, by `provider/model`, or by provider for its other models. "
        "The cost is then reckoned from the tokens until the provider tells it.",
    )

    def to_budget(self) -> Budget:
        """Return the limits as the engine knows them."""
        return Budget(tokens=self.tokens, usd=self.usd, turns=self.turns, spawns=self.spawns)


class StuckSettings(Section):
    """When an agent counts as stuck: it is told at a limit, and fails at twice the limit."""

    enabled: StrictBool = Field(default=True, description="Whether anybody looks.")
    repeats: CountOrZero = Field(
        default=4, description="The same call with the same result in a row; 0: no limit."
    )
    rounds: CountOrZero = Field(
        default=3, description="Rounds of two such calls by turns; 0: no limit."
    )
    messages: CountOrZero = Field(
        default=50, description="Messages of one turn in a row without a tool call; 0: no limit."
    )
    texts: CountOrZero = Field(
        default=3, description="The same message in a row without a tool call; 0: no limit."
    )
    polls: CountOrZero = Field(
        default=100,
        description="Repeats, or rounds, of a call that asks how children do; 0: no limit.",
    )
