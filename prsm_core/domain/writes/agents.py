"""Agents: how they are born, change their states, live again and end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace

from prsm_core.domain.rows import Advance, Fence, Insert, Of, Update
from prsm_core.domain.steps import Write
from prsm_core.errors import FencedError, InvalidTransitionError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prsm_core.domain.agents import (
        AgentDescriptor,
        AgentResult,
        AgentState,
        Grant,
        PermissionMode,
    )
    from prsm_core.domain.notes import Notes
    from prsm_core.domain.rows import Ledger, Row
    from prsm_core.domain.steps import Step, Telling

# What of an agent is in its two rows, and is told, as it is called there.
_AGENT = (
    *("agent_id", "session_id", "run_id", "name", "parent_id", "depth", "provider", "model"),
    *("incarnation", "created_at"),
)
_SPEC = ("agent_id", "prompt", "system_prompt", "cwd", "tools", "reasoning_effort", "continues")
_TOLD = (
    *("name", "provider", "model", "depth", "prompt", "cwd", "incarnation", "labels"),
    "continues",
)


class AgentSpawned(Write, frozen=True, kw_only=True):
    """A new agent (PENDING) with its ledger session `<session>/<alias>`."""

    texts = ("agent",)
    is_of_run = True
    is_of_life = True

    agent: AgentDescriptor
    call: str | None = None  # of its parent, by which it was spawned

    def guard(self, step: Step, ledger: Ledger) -> None:
        """Refuse an agent of another session, or under a parent that has ended."""
        agent = self.agent
        if agent.session_id != step.session_id:
            raise StoreError(
                f"agent {agent.agent_id} is of session {agent.session_id}, its step of"
                f" {step.session_id}",
                code="wrong_session",
            )
        if agent.parent_id is not None:
            parent = ledger.agent(agent.parent_id)
            if parent is None:
                raise StoreError(
                    f"there is no parent agent {agent.parent_id}", code="unknown_agent"
                )
            if parent.state.is_terminal:  # a kill may have come first
                raise has_ended(parent)
        label = label_of(agent.session_id, agent.name)
        first = Fence(agent.agent_id, agent.session_id, label, agent.incarnation, agent.state, 1)
        ledger.change(first)

    def rows(self, step: Step) -> Iterable[Row]:
        agent = self.agent
        row = {
            **{name: getattr(agent, name) for name in _AGENT},
            "role": str(agent.role),
            "state": str(agent.state),
            "next_turn": 1,
        }
        spec = {
            **{name: getattr(agent, name) for name in _SPEC},
            "mode": str(agent.mode),
            "grant_tools": agent.grant.tools,
            "grant_mode": str(agent.grant.mode),
            "mcp_servers": {name: asdict(one) for name, one in agent.mcp_servers.items()},
            "grant_limits": _limits(agent.grant),
            "labels": agent.labels or None,
        }
        session = {
            "label": label_of(agent.session_id, agent.name),
            "is_subagent": int(agent.parent_id is not None),
            "session_id": agent.session_id,
            "agent_id": agent.agent_id,
            **dict.fromkeys(("created_at", "updated_at"), int(agent.created_at * 1000)),
        }
        above = None
        if agent.parent_id is not None:
            own = {"agent_id": agent.parent_id}
            above = {"parent_session_label": Of("sessions", own, "label")}
        return (
            Insert("agents", row),
            Insert("agent_specs", spec),
            Insert("sessions", session, computed=above),
        )

    def events(self, step: Step) -> Iterable[Telling]:
        agent = self.agent
        data = {
            **{name: getattr(agent, name) for name in _TOLD},
            "parent": agent.parent_id,
            "role": str(agent.role),
            "call": self.call,
            "mode": str(agent.mode),
            "region": None if agent.grant.region is None else list(agent.grant.region),
        }
        return step.telling("agent_spawned", data, agent.agent_id)


class StateChanged(Write, frozen=True, kw_only=True):
    """A validated transition of the step's agent; refused if the stored state is not `source`."""

    texts = ("reason",)

    source: AgentState
    target: AgentState
    reason: str = ""
    waiting_on: str | None = None

    def guard(self, step: Step, ledger: Ledger) -> None:
        """Refuse what does not fit the stored state; an ended agent leaves it by a restart only."""
        fence = own_fence(step, ledger)
        if self.source is not fence.state:
            raise InvalidTransitionError("agent", fence.state, self.target)
        leaves_its_end = fence.state.is_terminal and not self.target.is_terminal
        if leaves_its_end and step.find(AgentRestarted) is None:
            raise has_ended(fence)
        ledger.change(replace(fence, state=self.target))

    def rows(self, step: Step) -> Iterable[Row]:
        values: dict[str, Any] = {"state": str(self.target), "waiting_on": self.waiting_on}
        if not self.target.is_terminal:
            values["ended_at"] = None
        elif not self.source.is_terminal:
            values["ended_at"] = step.at
        return (Update("agents", {"agent_id": step.agent_id}, values),)

    def events(self, step: Step) -> Iterable[Telling]:
        """Return `agent_state_changed`; the end of a success tells what speaks for it."""
        data: dict[str, Any] = {
            "from": str(self.source),
            "to": str(self.target),
            "reason": self.reason,
            "waiting_on": self.waiting_on,
        }
        end = step.find(AgentEnded) if self.target.is_terminal else None
        if end is not None and end.result.success:
            data["evidence"] = end.result.evidence
            data["evidence_gaps"] = list(end.result.evidence_gaps)
            if end.result.evidence_by:
                data["evidence_by"] = list(end.result.evidence_by)
        return step.telling("agent_state_changed", data)


class _Result(Write, frozen=True, kw_only=True):
    texts = ("result",)
    is_of_life = True

    result: AgentResult

    def rows(self, step: Step) -> Iterable[Row]:
        result = {"result": self.result.to_dict()}
        return (Update("agents", {"agent_id": step.agent_id}, result),)


class AgentEnded(_Result, frozen=True, kw_only=True):
    """The agent's one result; the step's changes of state must lead to an end."""


class ResultClaimed(_Result, frozen=True, kw_only=True):
    """A result that waits for the end of the agent's last child."""


class AgentRestarted(Write, frozen=True, kw_only=True):
    """A new incarnation: the step carries its number, and its changes must leave a terminal state.

    One that was cut off reads what its life before has left unread; if it is a resume nothing else
    of it changes.
    """

    texts = ("prompt",)

    prompt: str | None = None  # None: as before
    is_resume: bool = False  # the life before was cut off with its engine

    def guard(self, step: Step, ledger: Ledger) -> None:
        ledger.change(replace(own_fence(step, ledger), incarnation=step.incarnation))

    def rows(self, step: Step) -> Iterable[Row]:
        agent = {"agent_id": step.agent_id}
        anew: dict[str, Any] = {"incarnation": step.incarnation}
        if not self.is_resume:
            anew |= {"result": None, "waiting_on": None, "notes": None}
        rows: list[Row] = [Update("agents", agent, anew)]
        if self.prompt is not None:
            rows.append(Update("agent_specs", agent, {"prompt": self.prompt}))
        change = step.find(StateChanged)
        if change is None or not change.source.is_terminal:
            before = {"incarnation": step.incarnation - 1, "consumed_by": None}
            mail = {"target": step.agent_id, **before}
            rows.append(Update("inbox", mail, {"incarnation": step.incarnation}))
        return rows


class AgentsResumed(Write, frozen=True, kw_only=True):
    """New incarnations of agents cut off with their engine; they read what was left unread."""

    is_of_run = True

    lives: Mapping[str, int]  # the new incarnation, by agent

    def guard(self, step: Step, ledger: Ledger) -> None:
        """Refuse a life that is not the next one of an agent that had not ended."""
        fences = ledger.agents(self.lives)
        for agent_id, incarnation in self.lives.items():
            fence = fences.get(agent_id)
            if fence is None:
                raise _no_agent(agent_id, step)
            check_incarnation(step, fence, incarnation, fence.incarnation + 1)
            if fence.state.is_terminal:
                raise StoreError(f"agent {agent_id} has ended ({fence.state})", code="has_ended")
            ledger.change(replace(fence, incarnation=incarnation))

    def rows(self, step: Step) -> Iterable[Row]:
        return (
            Advance("agents", "incarnation", "agent_id", self.lives),
            Advance("inbox", "incarnation", "target", self.lives, empty=("consumed_by",)),
        )


class AgentRelabelled(Write, frozen=True, kw_only=True):
    """Other labels of the step's agent, or of a child of its: all that it has from now on."""

    texts = ("labels",)

    agent_id: str
    labels: Mapping[str, str]

    def guard(self, step: Step, ledger: Ledger) -> None:
        """Refuse what one that has ended says, or one that is not above the agent."""
        fence = own_fence(step, ledger)
        if fence.state.is_terminal and step.find(AgentRestarted) is None:
            raise has_ended(fence)
        if self.agent_id == step.agent_id:
            return
        own = {"agent_id": self.agent_id, "session_id": step.session_id}
        if ledger.look("agents", own, "parent_id") != (step.agent_id,):
            raise StoreError(
                f"agent {self.agent_id} is no child of {step.agent_id}", code="unknown_agent"
            )

    def rows(self, step: Step) -> Iterable[Row]:
        labels = {"labels": self.labels or None}
        return (Update("agent_specs", {"agent_id": self.agent_id}, labels),)

    def events(self, step: Step) -> Iterable[Telling]:
        return step.telling("agent_labels_changed", {"labels": self.labels}, self.agent_id)


class ModelSwitched(Write, frozen=True, kw_only=True):
    """The model that takes over; the old one's thread means nothing to it."""

    texts = ("provider", "model", "reasoning_effort")

    provider: str
    model: str
    reasoning_effort: str | None = None

    def rows(self, step: Step) -> Iterable[Row]:
        agent = {"agent_id": step.agent_id}
        model = {"provider": self.provider, "model": self.model, "resume_token": None}
        effort = {"reasoning_effort": self.reasoning_effort}
        return Update("agents", agent, model), Update("agent_specs", agent, effort)

    def events(self, step: Step) -> Iterable[Telling]:
        model = {"provider": self.provider, "model": self.model}
        effort = {"reasoning_effort": self.reasoning_effort}
        return step.telling("agent_model_changed", {**model, **effort})


class ModeSwitched(Write, frozen=True, kw_only=True):
    """The mode of the agent's new life, and the most that it may hand down in it."""

    source: PermissionMode  # as people call it: of a master the mode of its run
    target: PermissionMode
    mode: PermissionMode
    granted: PermissionMode

    def rows(self, step: Step) -> Iterable[Row]:
        modes = {"mode": str(self.mode), "grant_mode": str(self.granted)}
        return (Update("agent_specs", {"agent_id": step.agent_id}, modes),)

    def events(self, step: Step) -> Iterable[Telling]:
        if self.source is self.target:
            return ()  # one that delegates hands down less
        told = {"from": str(self.source), "to": str(self.target), "mode": str(self.mode)}
        return step.telling("agent_mode_changed", told)


class AgentHeld(Write, frozen=True, kw_only=True):
    """What the agent waits for, while a login or a limit holds it; None: it is held no more."""

    texts = ("reason",)

    waiting_on: str | None
    reason: str | None = None
    until: float | None = None  # Unix seconds

    def rows(self, step: Step) -> Iterable[Row]:
        held = {"waiting_on": self.waiting_on}
        return (Update("agents", {"agent_id": step.agent_id}, held),)

    def events(self, step: Step) -> Iterable[Telling]:
        held = {"waiting_on": self.waiting_on, "reason": self.reason, "until": self.until}
        return step.telling("agent_held", held)


class ThreadKept(Write, frozen=True, kw_only=True):
    """What resumes the agent at its vendor; None: nothing does any more."""

    texts = ("thread",)

    thread: str | None

    def rows(self, step: Step) -> Iterable[Row]:
        return (Update("agents", {"agent_id": step.agent_id}, {"resume_token": self.thread}),)


class AgentNoted(Write, frozen=True, kw_only=True):
    """All that is known of an agent's life beside its other rows.

    It is the step's agent's; or the run writes it for one that nobody runs.
    """

    texts = ("notes",)
    is_of_run = True

    notes: Notes
    agent_id: str | None = None  # None: the step's own

    def guard(self, step: Step, ledger: Ledger) -> None:
        """Refuse what is about no agent of the session, or written by another one."""
        if self.agent_id is None and step.agent_id is not None:
            return  # nearly always
        fence = None if self.agent_id is None else ledger.agent(self.agent_id)
        if fence is None or fence.session_id != step.session_id or step.agent_id is not None:
            raise _no_agent(self.agent_id, step)

    def rows(self, step: Step) -> Iterable[Row]:
        agent = {"agent_id": self.agent_id or step.agent_id}
        return (Update("agents", agent, {"notes": self.notes.to_dict()}),)


def label_of(session_id: str, name: str) -> str:
    """Return the label of an agent's ledger session."""
    return f"{session_id}/{name}"


def own_fence(step: Step, ledger: Ledger) -> Fence:
    """Return the step's own agent. Raises StoreError where there is none."""
    fence = None if step.agent_id is None else ledger.agent(step.agent_id)
    if fence is None:
        raise _no_agent(step.agent_id, step)
    return fence


def _no_agent(agent_id: str | None, step: Step) -> StoreError:
    return StoreError(
        f"there is no agent {agent_id} in session {step.session_id}", code="unknown_agent"
    )


def check_incarnation(step: Step, fence: Fence, incarnation: int, expected: int) -> None:
    """Raise FencedError for an older incarnation, StoreError for one that is yet to come."""
    if incarnation == expected:
        return
    about = f"step {step.step_id} is of incarnation {incarnation}"
    if incarnation < expected:
        raise FencedError(f"{about}; agent {fence.agent_id} is at {fence.incarnation}")
    raise StoreError(
        f"{about}, but agent {fence.agent_id} is only at {fence.incarnation}",
        code="bad_incarnation",
    )


def has_ended(fence: Fence) -> FencedError:
    """Return the error of what comes after an agent's end."""
    return FencedError(
        f"agent {fence.agent_id} has ended ({fence.state})", hint="restart it to go on"
    )


def _limits(grant: Grant) -> dict[str, Any] | None:
    limits = {
        "models": grant.models,
        "depth": grant.depth,
        "budget": grant.budget.to_dict() or None,
        "model": grant.model,
        "region": grant.region,
    }
    known = {name: limit for name, limit in limits.items() if limit is not None}
    return known or None
