"""Mistakes that are planted between the model of a ledger and the stores: each must be found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core.domain.rows import Update
from prsm_core.domain.writes import (
    AgentRestarted,
    CallClosed,
    MessagesConsumed,
    RequestResolved,
    StateChanged,
    TurnOpened,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prsm_core.domain.rows import Ledger, Row
    from prsm_core.domain.steps import Step, Telling, Write
    from tests.store.ledger_model import LedgerModel


class ReadTwice(MessagesConsumed, frozen=True, kw_only=True):
    """It does not look whether a message was read."""

    def rows(self, step: Step) -> Iterable[Row]:
        for row in super().rows(step):
            yield without(row, "consumed_by")


class AnsweredTwice(CallClosed, frozen=True, kw_only=True):
    """It does not look whether a call was answered."""

    def rows(self, step: Step) -> Iterable[Row]:
        for row in super().rows(step):
            yield without(row, "completed_at")


class OpenedByTheDead(TurnOpened, frozen=True, kw_only=True):
    """An agent that has ended may open a turn."""

    is_of_life = False


class ChangedFromAnywhere(StateChanged, frozen=True, kw_only=True):
    """It does not look at the state that is stored."""

    def guard(self, step: Step, ledger: Ledger) -> None:
        fence = ledger.agent(str(step.agent_id))
        if fence is not None:
            super(ChangedFromAnywhere, replace(self, source=fence.state)).guard(step, ledger)


class ToldTheWrongWay(StateChanged, frozen=True, kw_only=True):
    """Its event has source and target in each other's place."""

    def events(self, step: Step) -> Iterable[Telling]:
        return super(ToldTheWrongWay, replace(self, source=self.target, target=self.source)).events(
            step
        )


class SameLife(AgentRestarted, frozen=True, kw_only=True):
    """It keeps the result of the life before."""

    def rows(self, step: Step) -> Iterable[Row]:
        first, *rest = super().rows(step)
        assert isinstance(first, Update)
        values = {name: value for name, value in first.values.items() if name != "result"}
        return [replace(first, values=values), *rest]


class AnsweredAgain(RequestResolved, frozen=True, kw_only=True):
    """Its last answer counts, not the first."""

    def rows(self, step: Step) -> Iterable[Row]:
        for row in super().rows(step):
            yield without(row, "state")


def without(row: Any, column: str) -> Any:
    """Return a row that does not ask for a column."""
    where = {name: value for name, value in row.where.items() if name != column}
    return replace(row, where=where)


def spoiled(kind: type[Write]) -> Callable[[Step, LedgerModel], Step]:
    """Return what puts a wrong kind of write in the place of the right one."""

    def plant(step: Step, _: LedgerModel) -> Step:
        writes = tuple(
            kind(**{name: getattr(write, name) for name in write.__struct_fields__})
            if type(write) is kind.__base__
            else write
            for write in step.writes
        )
        return replace(step, writes=writes)

    return plant


def unfenced(step: Step, model: LedgerModel) -> Step:
    """A store that takes each step for one of the present life."""
    agent = model.state.agents.get(step.agent_id or "")
    restarts = step.find(AgentRestarted) is not None
    return step if agent is None else replace(step, incarnation=agent.life + restarts)


def forgetful(step: Step, model: LedgerModel) -> Step:
    """A store that does not know a step that it has applied."""
    return replace(step, step_id=f"{step.step_id}:{len(model.events)}")


MISTAKES = {
    "a message is read twice": spoiled(ReadTwice),
    "a call is answered twice": spoiled(AnsweredTwice),
    "an ended agent opens a turn": spoiled(OpenedByTheDead),
    "a state changes from anywhere": spoiled(ChangedFromAnywhere),
    "an event is told the wrong way": spoiled(ToldTheWrongWay),
    "a new life keeps the old result": spoiled(SameLife),
    "a request is answered again": spoiled(AnsweredAgain),
    "no life is fenced": unfenced,
    "a step is applied twice": forgetful,
}
