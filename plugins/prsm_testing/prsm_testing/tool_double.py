"""What the engine gives the handler of a plugin's tool, for tests of that handler."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from prsm_core.domain.agents import AgentRole
from prsm_core.domain.labels import relabelled
from prsm_core.domain.permissions import Answer
from prsm_core.errors import MessageRoutingError, OrchestrationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prsm_core.domain.permissions import Question
    from prsm_core.interfaces.tool import PeerMessage, PeerNow, ToolContribution

__all__ = ["RecordingToolCall"]


class RecordingToolCall:
    """A ToolCall that keeps what its handler does, by the rules of the engine.

    Args:
        spec: The record of the tool, which says what its handler may do.
        args: The arguments of the call.
        labels: Those of the calling agent; `relabel` changes them.
        peers: The live agents of the run.
        messages: What other agents have sent, oldest first.
        answer: What a person answers.
        fields: Others of a ToolCall: `context_used=0.8`, `is_again=True`, `now=100.0`.

    Attributes:
        changes: The labels that were changed, each as it was last.
        sent: (to, text) of each message.
        asked: Each question.
    """

    def __init__(
        self,
        spec: ToolContribution,
        args: Mapping[str, Any] | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        peers: Sequence[PeerNow] = (),
        messages: Iterable[PeerMessage] = (),
        answer: Answer | None = None,
        **fields: Any,
    ) -> None:
        self.id = str(fields.get("id", "call-1"))
        self.name = spec.name
        self.args: Mapping[str, Any] = dict(args or {})
        self.agent_id = str(fields.get("agent_id", "a" * 32))
        self.agent_name = str(fields.get("agent_name", "master"))
        self.role = AgentRole(fields.get("role", AgentRole.MASTER))
        self.provider = str(fields.get("provider", "script"))
        self.cwd = str(fields.get("cwd", "/work"))
        self.workspace = str(fields.get("workspace", "/work"))
        self.trusted = bool(fields.get("trusted", False))
        self.context_used: float | None = fields.get("context_used")
        self.now = float(fields.get("now", 0.0))
        self.is_again = bool(fields.get("is_again", False))
        self.changes: dict[str, str | None] = {}
        self.sent: list[tuple[str, str]] = []
        self.asked: list[Question] = []
        self._spec = spec
        self._labels: Mapping[str, str] = dict(labels or {})
        self._peers = tuple(peers)
        self._messages = deque(messages)
        self._answer = answer or Answer(text="nobody is there")

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the calling agent, with what was changed."""
        return dict(self._labels)

    def agents(self) -> Sequence[PeerNow]:
        """Return the live agents of the run."""
        return self._peers

    def relabel(self, changes: Mapping[str, str | None]) -> Mapping[str, str]:
        """Change labels of the calling agent; return all it has then."""
        prefix = self._spec.labels
        labels = relabelled(self._labels, changes, owner=prefix, error=OrchestrationError)
        plain = [name for name in changes if not name.startswith(f"{prefix}/")]
        if plain:
            raise OrchestrationError(f"{plain[0]} is not the tool's to set", code="bad_labels")
        self._labels = labels
        self.changes.update(changes)
        return self.labels

    def send(self, to: str, text: str) -> str:
        """Send a text to one of the peers; return the message's id."""
        if not self._spec.sends_messages:
            raise RuntimeError(f"tool {self.name} sends, but has no sends_messages")
        if not any(to in {peer.agent_id, peer.name} for peer in self._peers):
            known = ", ".join(peer.name for peer in self._peers) or "none"
            raise MessageRoutingError(
                f"{to!r} is no agent of this run",
                hint=f"agents that you can write to: {known}",
                code="unknown_agent",
            )
        self.sent.append((to, text))
        return f"message-{len(self.sent)}"

    async def next_message(self, seconds: float | None) -> PeerMessage | None:
        """Take the oldest of the messages; None: there is none, for as long as is waited."""
        if not self._spec.takes_messages:
            raise RuntimeError(f"tool {self.name} takes messages, but has no takes_messages")
        return self._messages.popleft() if self._messages else None

    async def ask_user(self, question: Question) -> Answer:
        """Ask a person, who answers as was given."""
        if self.asked:
            raise RuntimeError("a call asks a person one question")
        self.asked.append(question)
        return self._answer
