"""One picture of a session at one moment, for whoever comes late: pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec.structs import replace

from prsm_core.domain.messages import MessageType
from prsm_core.door import BudgetReport
from prsm_core.engine.journal.views import build_tree, walk_tree
from prsm_core.kit.quotation import without_references

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from prsm_core.domain.steps import HumanRequest
    from prsm_core.domain.usage import Spent
    from prsm_core.engine.state import UsedByTurn
    from prsm_core.interfaces.store import OpenTurn, Picture, RunRow

    Redact = Callable[[Any], Any]

INTERRUPTED = "interrupted"


class Speaking(Protocol):
    """What knows the text that no event has yet: Spoken."""

    def since(self, agent: str, turn_id: str, seq: int, redact: Redact) -> dict[str, Any]:
        """Return what a turn has said beyond event `seq`."""
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
) -> dict[str, Any]:
    """Return what AppHandle.view does; `rest` are fields that no event tells of.

    Of agents that are `lost` nothing runs, and nobody could be answered; see `build_tree`.
    """
    picture = _without(lost, picture) if lost else picture
    run = picture.run
    tree = build_tree(
        session,
        None if run is None else run.run_id,
        picture.agents,
        now,
        lost=lost,
        requests=picture.requests,
        unwritten=unwritten,
    )
    _add_to_nodes(tree, picture, redact)
    names = {row.descriptor.agent_id: row.descriptor.name for row in picture.agents}
    return {
        "seq": picture.seq,
        "session": session,
        "run": None if run is None else _run(run),
        "tree": tree,
        "requests": request_rows(picture.requests, names, redact),
        "turns": [
            {
                "agent": turn.agent_id,
                "turn": turn.turn_id,
                "n": turn.number,
                **spoken.since(turn.agent_id, turn.turn_id, picture.seq, redact),
            }
            for turn in picture.turns
        ],
        **rest,
    }


def _without(lost: Collection[str], picture: Picture) -> Picture:
    """Leave out what runs and waits of agents that are lost, and the run with its last agent."""
    run, agents = picture.run, [row.descriptor for row in picture.agents]
    is_cut = run is not None and any(
        agent.run_id == run.run_id and agent.agent_id in lost and not agent.state.is_terminal
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
) -> list[Mapping[str, Any]]:
    """Return open requests as AppHandle.requests tells them."""
    return [
        {
            **redact(row.payload),
            "request": row.request_id,
            "kind": row.kind,
            "agent": row.agent_id,
            "name": names[row.agent_id],
            "opened_at": row.opened_at,
        }
        for row in requests
    ]


def tell_budget(run: Mapping[str, Any], spent: Spent) -> BudgetReport:
    """Return a budget as AppHandle.budget does; `run` is the report of a scope."""
    return msgspec.convert({"run": run, "spent": spent.text}, BudgetReport)


def _run(run: RunRow) -> dict[str, Any]:
    return {
        "id": run.run_id,
        "task": without_references(run.task),
        "status": run.status,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "summary": run.summary,
        "error": run.error,
    }


def _add_to_nodes(tree: Mapping[str, Any], picture: Picture, redact: Redact) -> None:
    """Add to each node what the tree alone does not tell."""
    rows = {row.descriptor.agent_id: row for row in picture.agents}
    turns: Mapping[str, OpenTurn] = {turn.agent_id: turn for turn in picture.turns}
    prompts: dict[str, list[dict[str, Any]]] = {}
    for message in picture.unread:
        if message.type is MessageType.USER_PROMPT:
            said = without_references(message.payload.get("text", ""))
            told = {"text": redact(said), "at": message.created_at}
            prompts.setdefault(message.target, []).append(told)
    for node in walk_tree(tree["agents"]):
        agent = node["id"]
        calls = turns[agent].calls if agent in turns else ()
        node.update(  # type: ignore[attr-defined]
            mode=rows[agent].descriptor.mode.value,
            labels=dict(rows[agent].descriptor.labels),
            context=picture.contexts.get(agent),
            open_tools=[{"call": c.call, "tool": c.tool, "since": c.since} for c in calls],
            prompts=prompts.get(agent, []),
        )
