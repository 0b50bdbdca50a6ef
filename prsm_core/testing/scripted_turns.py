"""The turns that run, by what a test has said of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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
