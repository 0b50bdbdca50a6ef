"""The agents and the turns that run, by what a test has said of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.usage import Spent
from prsm_core.errors import ConfigError, ModelNotAvailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from prsm_core.domain.events import Event


def running_turns(log: Sequence[Event]) -> list[dict[str, Any]]:
    """Return the turns of which pieces were told, each with what is not committed yet."""
    turns: dict[str | None, dict[str, Any]] = {}
    for event in log:
        turn, (turn_id, message) = turns.get(event.agent), map(event.data.get, ("turn", "message"))
        if event.type in _LIVE:
            if turn is None or (turn["turn"], turn["message"]) != (turn_id, message):
                turn = turns[event.agent] = _turn(event.agent, turn_id, message)
            turn[_LIVE[event.type]] += event.data["text"]
            turn["at"] = len(turn["text"])
        elif event.type == "turn_finished":
            turns.pop(event.agent, None)
        elif turn is not None and event.type == "message_completed" and turn["message"] == message:
            turns[event.agent] = _turn(event.agent, turn_id, (message or 0) + 1)
    return list(turns.values())


def _turn(agent: str | None, turn_id: Any, message: Any) -> dict[str, Any]:
    said = {"message": message, "text": "", "thinking": "", "at": 0, "unwritten": []}
    return {"agent": agent, "turn": turn_id, "n": 1, **said}


_LIVE: Mapping[str, str] = {"text_delta": "text", "thinking_delta": "thinking"}


def labels_now(events: Iterable[Event]) -> dict[str, Mapping[str, str]]:
    """Return what is said of each agent after these events, by its id."""
    said: dict[str, Mapping[str, str]] = {}
    for event in events:
        if event.type in {"agent_spawned", "agent_labels_changed"}:
            said[event.agent or ""] = event.data.get("labels") or {}
    return said


def named_model(
    log: Iterable[Event], rows: Iterable[Mapping[str, Any]], agent_id: str, model: str
) -> str:
    """Return the model that a name means for an agent; a provider of no row or agent is none."""
    if not model.strip():
        raise ConfigError("no model is named", hint="`prsm models list` tells all", code="no_model")
    spawned = {event.agent: event.data for event in log if event.type == "agent_spawned"}
    provider, _, name = model.rpartition("/")
    provider = provider or spawned[agent_id]["provider"]
    known = {row["provider"] for row in (*rows, *spawned.values())}
    if provider not in known:
        hint = f"the nearest names: {', '.join(sorted(known))}"
        raise ModelNotAvailableError(f"there is no model {model!r}", hint=hint)
    return f"{provider}/{name}"


def told_tree(
    log: Iterable[Event], waiting: Callable[[str | None], Sequence[Mapping[str, Any]]]
) -> list[dict[str, Any]]:
    """Return the agents that were spawned, below each other; what is not known is None."""
    nodes: dict[str | None, dict[str, Any]] = {}
    roots: list[dict[str, Any]] = []
    for event in log:
        if event.type == "agent_spawned":
            told = {**event.data, "id": event.agent, "run": event.run, "children": []}
            node = {**_NODE, **told, "waits_for_user": waiting(event.agent)}
            nodes[event.agent] = node
            parent = nodes.get(event.data["parent"])
            (roots if parent is None else parent["children"]).append(node)
        elif event.type == "agent_state_changed" and event.agent in nodes:
            nodes[event.agent]["state"] = event.data["to"]
        elif event.type == "agent_model_changed" and event.agent in nodes:
            nodes[event.agent].update(event.data)
    return roots


_UNKNOWN_USAGE = Spent().to_dict()
_NODE: Mapping[str, Any] = {
    "state": "pending",
    "usage_self": _UNKNOWN_USAGE,
    "usage_subtree": _UNKNOWN_USAGE,
    "elapsed_s": None,
    "last_tool": None,
    "silent_s": None,
    "evidence": None,
    "evidence_gaps": [],
    "evidence_by": [],
}
MORE: Mapping[str, Any] = {"waiting_on": None, "context": None, "open_tools": [], "prompts": []}
