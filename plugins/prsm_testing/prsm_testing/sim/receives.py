"""What an agent has received in its open turn, and its model has not acted on; by its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.domain.events import Event
    from prsm_testing.memory_ledger import MemoryLedger


def received_unheard(ledger: MemoryLedger, agent: str) -> list[str]:
    """Return the calls that did nothing but receive, and whose answers nobody has acted on."""
    turns = ledger.tables["turns"].values()
    own = (turn for turn in turns if turn["agent_id"] == agent and turn["status"] == "running")
    if (turn := next(own, None)) is None:
        return []
    (session,) = ledger.events
    events = [event for event in ledger.events[session] if event.agent == agent]
    effects = ledger.tables["effects"].values()
    has_acted = {row["call_id"] for row in effects if row["turn_id"] == turn["id"]}
    inbox = ledger.tables["inbox"].values()
    used = {(row.get("consumed_by"), row.get("ended")) for row in inbox if row["target"] == agent}
    return [
        call
        for call, seq in _unheard_answers(events, turn["id"]).items()
        if call not in has_acted and (call, ledger.positions[session][seq - 1]) in used
    ]


def _unheard_answers(events: Sequence[Event], turn_id: str) -> dict[str, int]:
    """Return the answers to the newest response, by call, unless the model has spoken since.

    Each is the number of the event that tells it.
    """
    began = next(n for n, event in enumerate(events) if event.data.get("turn") == turn_id)
    calls, ends, spoke, newest = dict[str, int](), dict[str, int](), 0, 0
    for event in events[began:]:
        seq = event.seq or 0
        match event.type:
            case "tool_call_started":
                spoke, newest = seq, max(newest, event.data["response"])
                if event.data["orchestration"]:
                    calls[event.data["call"]] = event.data["response"]
            case "message_completed" if event.data["role"] == "assistant":
                spoke = seq
            case "tool_call_finished" if event.data.get("turn") == turn_id:
                ends[event.data["call"]] = seq
            case "receives_undone":
                for call in event.data["calls"]:
                    del calls[call]
    last = [call for call, response in calls.items() if response == newest]
    if all(ends.get(call, spoke) < spoke for call in last):
        return {}
    return {call: ends[call] for call in last if call in ends}
