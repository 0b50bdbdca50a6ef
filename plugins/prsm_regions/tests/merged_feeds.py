"""The graph that the feeds of all agents add up to, as a reader of them would merge it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_regions.extension.messages import Message

    Register = tuple[int, str, str]  # seq, agent, action: the greater one wins


class Graph:
    """All feeds, merged: files, who did what to each last, what each agent used, whose regions.

    Merging is commutative, associative and idempotent.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Register] = {}
        self._usage: dict[str, tuple[int, Message]] = {}
        self._agents: dict[str, tuple[str, str]] = {}

    def merge(self, message: Mapping[str, Any]) -> None:
        """Take a message of any agent's feed; of another type it is left out."""
        agent, kind = message["agent_id"], message["type"]
        if kind == "snapshot":
            self._agents[agent] = (message["name"], message["region"])
        for node in message.get("nodes", ()):
            register = (node["seq"], node["agent_id"], node["action"])
            if register > self._nodes.get(node["path"], (0, "", "")):
                self._nodes[node["path"]] = register
        if "usage" in message and message["seq"] >= self._usage.get(agent, (0, {}))[0]:
            self._usage[agent] = (message["seq"], dict(message["usage"]))

    def to_dict(self) -> Message:
        """Return the whole graph as JSON values, in an order of its own."""
        return {
            "agents": {
                agent: {"name": name, "region": region}
                for agent, (name, region) in sorted(self._agents.items())
            },
            "nodes": {
                path: {"seq": seq, "agent_id": agent, "action": action}
                for path, (seq, agent, action) in sorted(self._nodes.items())
            },
            "usage": {agent: usage for agent, (_, usage) in sorted(self._usage.items())},
        }
