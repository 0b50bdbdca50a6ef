"""What a scripted agent has been told so far, as a model's next request would hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.builtin.script.playback import Conversation

if TYPE_CHECKING:
    from prsm_core.domain.turns import AssembledContext
    from prsm_core.interfaces.provider import SessionRequest


class Thread:
    """Owns an agent's conversation."""

    def __init__(self, request: SessionRequest) -> None:
        self._agent = request.name
        self._system = request.system_prompt
        self._texts: list[str] = []  # all of them, in order of time
        self._prompts: list[str] = []
        self._outputs: list[tuple[str, str, str]] = []

    def hear(self, context: AssembledContext) -> None:
        """Take in what a turn begins with: a rebuilt history, a prompt."""
        current = context.current_message
        for message in (*context.history, *((current,) if current is not None else ())):
            self._texts.append(message.content)
            if message.role == "user":
                self._prompts.append(message.content)

    def say(self, text: str) -> None:
        """Add what the agent has said itself."""
        self._texts.append(text)

    def learn(self, call_id: str, tool: str, text: str) -> None:
        """Add the answer to a call."""
        self._texts.append(text)
        self._outputs.append((call_id, tool, text))

    def conversation(self) -> Conversation:
        """Return what the next request says."""
        return Conversation(
            user=tuple(self._prompts),
            system=(self._system,),
            outputs=tuple(self._outputs),
            text="\n".join((self._system, *self._texts)),
            agent=self._agent,
        )
