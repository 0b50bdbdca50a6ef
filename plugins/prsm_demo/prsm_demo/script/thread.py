"""What a scripted agent has been told so far, as a model's next request would hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_demo.script.place import KeptResponse, KeptThread, image_words
from prsm_demo.script.playback import Conversation

if TYPE_CHECKING:
    from prsm_core import AssembledContext, SessionRequest
    from prsm_demo.script.place import Outcome
    from prsm_demo.script.playback import Player, Reply


class Thread:
    """Owns an agent's conversation, and its newest response with what became of its calls."""

    def __init__(self, request: SessionRequest, kept: KeptThread | None = None) -> None:
        kept = kept or KeptThread()
        self._agent = request.name
        self._system = request.system_prompt
        self._texts = list(kept.texts)  # all of them, in order of time
        self._prompts = list(kept.prompts)
        self._prompt_ids = list(kept.prompt_ids)
        self._outputs = list(kept.outputs)
        self._unanswered = list(kept.unanswered)
        self.response = kept.response

    def hear(self, context: AssembledContext) -> None:
        """Take in what a turn begins with: a rebuilt history, a prompt."""
        current = context.current_message
        for message in (*context.history, *((current,) if current is not None else ())):
            self._texts.append(message.content)
            if message.role == "user":
                self._prompts.append(message.content)
        self._texts += image_words(context.images)
        if current is not None:
            self._prompt_ids.append(current.id)
            self._unanswered.append(current.id)

    def respond(self, reply: Reply) -> None:
        """Take in that the model answers all that it was told."""
        self.response = KeptResponse(
            lane=reply.lane or "",
            step=reply.place,
            number=reply.number,
            say=reply.step.say,
            calls=tuple(
                (call_id, dict(call.arguments))
                for call, call_id in zip(reply.step.calls, reply.call_ids, strict=True)
            ),
            answers=tuple(self._unanswered),
            outcomes={},
        )
        self._unanswered.clear()

    def forget_response(self) -> None:
        """Let go of a response whose turn is over."""
        self.response = None

    def say(self, text: str) -> None:
        """Add what the agent has said itself."""
        self._texts.append(text)

    def learn(self, call_id: str, tool: str, answer: Outcome) -> None:
        """Add the answer to a call."""
        self._texts.append(answer.text)
        self._outputs.append((call_id, tool, answer.text))
        self._unanswered.append(call_id)
        if self.response is not None and any(call_id == one for one, _ in self.response.calls):
            self.response.outcomes[call_id] = answer

    @property
    def has_unanswered(self) -> bool:
        """Whether it holds a prompt, or the answer to a call, that no response answers."""
        return bool(self._unanswered)

    @property
    def held(self) -> frozenset[str]:
        """Ids of the prompts, and of the calls with their answers, that the thread holds."""
        return frozenset((*self._prompt_ids, *(call_id for call_id, _, _ in self._outputs)))

    def conversation(self) -> Conversation:
        """Return what the next request says."""
        return Conversation(
            user=tuple(self._prompts),
            system=(self._system,),
            outputs=tuple(self._outputs),
            text="\n".join((self._system, *self._texts)),
            agent=self._agent,
        )

    def kept(self, player: Player) -> KeptThread:
        """Return the thread as it is kept on disk."""
        replies, calls = player.counted
        return KeptThread(
            calls=calls,
            replies=replies,
            place=player.place(self.conversation()),
            texts=tuple(self._texts),
            prompts=tuple(self._prompts),
            prompt_ids=tuple(self._prompt_ids),
            outputs=tuple(self._outputs),
            unanswered=tuple(self._unanswered),
            response=self.response,
        )
