"""One picture of a session at one moment, for whoever comes late: pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec.structs import replace

from prsm_core.domain.messages import MessageType
from prsm_core.door import BudgetReport, OpenRequest, UnreadPrompt, View
from prsm_core.engine.journal.views import build_tree
from prsm_core.kit.quotation import without_references

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from prsm_core.domain.steps import HumanRequest
    from prsm_core.domain.usage import Spent
    from prsm_core.door import RunningTurn
    from prsm_core.engine.state import UsedByTurn
    from prsm_core.interfaces.store import OpenTurn, Picture

    Redact = Callable[[Any], Any]

INTERRUPTED = "interrupted"


class Speaking(Protocol):
    """What knows the text that no event has yet: Spoken."""

    def since(self, turn: OpenTurn, seq: int, redact: Redact) -> RunningTurn:
        """Return a turn with what it has said beyond event `seq`."""
        ...


def build_view(
    session: str,
    picture: Picture,
    spoken: Speaking,
    now: float,
    *,
    lost: Collection[str] = (),
    unwritten: Sequence[UsedByTurn],
    redact: Redact,
    **rest: Any,
) -> View:
    """Return what AppHandle.view does; `rest` are fields that no event tells of.

    Of agents that are `lost` nothing runs, and nobody could be answered; see `build_tree`.
    """
    picture = _without(lost, picture) if lost else picture
    run = picture.run
    if run is not None:
        run = replace(run, task=without_references(run.task))
    names = {row.descriptor.agent_id: row.descriptor.name for row in picture.agents}
    return View(
        seq=picture.seq,
        session=session,
        run=run,
        tree=build_tree(
            session,
            None if run is None else run.id,
            picture.agents,
            now,
            lost=lost,
            requests=picture.requests,
            unwritten=unwritten,
            more=_more(picture, redact),
        ),
        requests=tuple(request_rows(picture.requests, names, redact)),
        turns=tuple(spoken.since(turn, picture.seq, redact) for turn in picture.turns),
        **rest,
    )


def _without(lost: Collection[str], picture: Picture) -> Picture:
    """Leave out what runs and waits of agents that are lost, and the run with its last agent."""
    run, agents = picture.run, [row.descriptor for row in picture.agents]
    is_cut = run is not None and any(
        agent.run_id == run.id and agent.agent_id in lost and not agent.state.is_terminal
        for agent in agents
    )
    return replace(
        picture,
        run=replace(run, status=INTERRUPTED) if run is not None and is_cut else run,
        requests=[row for row in picture.requests if row.agent_id not in lost],
        turns=[turn for turn in picture.turns if turn.agent_id not in lost],
    )


def request_rows(
    requests: Iterable[HumanRequest], names: Mapping[str, str], redact: Redact
) -> list[OpenRequest]:
    """Return open requests as Requests.open tells them."""
    return [
        msgspec.convert(
            {
                **redact(row.payload),
                "kind": row.kind,
                "agent": row.agent_id,
                "name": names[row.agent_id],
                "opened_at": row.opened_at,
            },
            OpenRequest,
        )
        for row in requests
    ]


def tell_budget(run: Mapping[str, Any], spent: Spent) -> BudgetReport:
    """Return a budget as Runs.budget does; `run` is the report of a scope."""
    return msgspec.convert({"run": run, "spent": spent.text}, BudgetReport)


def _more(picture: Picture, redact: Redact) -> dict[str, Mapping[str, Any]]:
    """Return what a view tells of each agent that the tree alone does not."""
    turns: Mapping[str, OpenTurn] = {turn.agent_id: turn for turn in picture.turns}
    prompts: dict[str, list[UnreadPrompt]] = {}
    for message in picture.unread:
        if message.type is MessageType.USER_PROMPT:
            said = redact(without_references(message.payload.get("text", "")))
            prompt = UnreadPrompt(text=said, at=message.created_at)
            prompts.setdefault(message.target, []).append(prompt)
    told: dict[str, Mapping[str, Any]] = {}
    for row in picture.agents:
        agent = row.descriptor.agent_id
        calls = turns[agent].calls if agent in turns else ()
        told[agent] = {
            "mode": row.descriptor.mode.value,
            "labels": dict(row.descriptor.labels),
            "context": picture.contexts.get(agent),
            "open_tools": calls,
            "prompts": tuple(prompts.get(agent, ())),
        }
    return told
