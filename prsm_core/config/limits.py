"""What a run may use: tokens, money, a model's window, the machine; and what counts as stuck."""

# Annotations are values here, not texts: msgspec would have to evaluate each of these.
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import field

from prsm_core.config.values import Count, CountOrZero, Factor, Section, Share, Text
from prsm_core.domain.budgets import Budget

if TYPE_CHECKING:
    from prsm_core.domain.boxes import Box

MIB = 2**20


class ContextSettings(Section, frozen=True, kw_only=True):
    """How much of a model's context window is filled, and what is done when it is full.

    Attributes:
        compaction: When a conversation is summarised, and goes on with the summary. auto: before a
            turn that would be more than `fill`, unless the vendor does it itself, and when a model
            refuses a prompt as too long; overflow: only then; never: the agent fails then.
        fill: The part of the window that is filled; the answer has the rest.
        keep: The part of that which the newest messages may have that are kept as they are when a
            conversation is summarised.
        references: Whether `@path` in what a person says shows the model the file, the lines or the
            folder of the workspace that it names.
        skills: Whether agents are told which skills there are: folders with a SKILL.md, of the user
            and of a workspace that is trusted.
        summary_model: The model that writes summaries, a cheap one, say: an alias, provider/model,
            or an id; the agent's own if it is left out.
    """

    compaction: Literal["auto", "overflow", "never"] = "auto"
    fill: Share = 0.8
    keep: Share = 0.25
    references: bool = True
    skills: bool = True
    summary_model: Text | None = None


class PriceSettings(Section, frozen=True, kw_only=True):
    """What a million tokens of a model costs, in US dollars.

    Attributes:
        input: Of what the model is sent.
        output: Of what it answers, thinking included.
        cached_input: Of what a cache gave; as other input if it is left out.
    """

    input: Factor
    output: Factor
    cached_input: Factor | None = None


class BudgetSettings(Section, frozen=True, kw_only=True):
    """What one run may use up. 80 % of it is told; 100 % begins no agent and no turn any more.

    Turns that run then end at their model's next step, as failures that keep what was said.

    Attributes:
        tokens: Tokens of all agents together, as their providers tell them.
        usd: Cost in US dollars, as far as the providers tell it or `prices` says it; one that tells
            no cost is only warned of.
        turns: Turns of all agents together.
        spawns: Agents that agents spawn or restart; the master is not counted.
        let_turns_finish: A turn that runs when tokens or dollars are used up goes on to its own
            end.
        prices: What tokens cost, by `provider/model`, or by provider for its other models. The cost
            is then reckoned from the tokens until the provider tells it.
    """

    tokens: Count | None = None
    usd: Factor | None = None
    turns: Count | None = None
    spawns: Count | None = None
    let_turns_finish: bool = False

    prices: Mapping[Text, PriceSettings] = field(default_factory=dict)

    def to_budget(self) -> Budget:
        """Return the limits as the engine knows them."""
        return Budget(tokens=self.tokens, usd=self.usd, turns=self.turns, spawns=self.spawns)


class BoxSettings(Section, frozen=True, kw_only=True):
    """The box that each agent's process runs in, of providers that can.

    Attributes:
        agents: Whether agents run in boxes; docs/boxes.md says what is in one.
        memory_mib: Memory of one agent with all that it starts; null: no limit.
        cpus: Processors that one agent may keep busy; null: no limit.
        pids: Processes and threads of one agent; null: no limit.
        network: Whether agents reach the network, which vendors' programs need.
        mounts: Path in the box: file or folder of the machine that is seen there, read-only.
        writable: Folders that an agent may write beside its own.
    """

    agents: bool = False
    memory_mib: Count | None = None
    cpus: Factor | None = None
    pids: Count | None = None
    network: bool = True
    mounts: Mapping[Text, Text] = field(default_factory=dict)
    writable: tuple[Text, ...] = ()

    def to_box(self) -> "Box | None":
        """Return the box of an agent, None where agents run in none."""
        if not self.agents:
            return None
        from prsm_core.domain.boxes import Box  # few runs have any

        return Box(
            memory=None if self.memory_mib is None else self.memory_mib * MIB,
            cpus=self.cpus,
            pids=self.pids,
            network=self.network,
            mounts=self.mounts,
            writable=self.writable,
        )


class StuckSettings(Section, frozen=True, kw_only=True):
    """When an agent counts as stuck: it is told at a limit, and fails at twice the limit.

    Attributes:
        enabled: Whether anybody looks.
        repeats: The same call with the same result in a row; 0: no limit.
        rounds: Rounds of two such calls by turns; 0: no limit.
        messages: Messages of one turn in a row without a tool call; 0: no limit.
        texts: The same message in a row without a tool call; 0: no limit.
        polls: Repeats, or rounds, of a call that asks how children do; 0: no limit.
    """

    enabled: bool = True
    repeats: CountOrZero = 4
    rounds: CountOrZero = 3
    messages: CountOrZero = 50
    texts: CountOrZero = 3
    polls: CountOrZero = 100
