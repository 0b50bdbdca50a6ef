"""The contract of every tool of a plugin, as a pytest class to subclass.

class TestMyTool(ToolContract):
    spec = next(iter(prsm_tools()))
    labels = {"protocol": "inbox"}              # of an agent that has it
    samples = ({"to": "work"}, {"to": "nowhere"})  # arguments of calls

    async def test_it_moves_its_agent(self):
        call = self.call({"to": "work"})
        await self.answer(call)
        assert call.changes == {"mine/state": "work"}
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
from abc import ABC
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from prsm_core.domain.agents import AgentRole
from prsm_core.domain.labels import relabelled
from prsm_core.domain.permissions import Answer
from prsm_core.domain.structs import find_fault, json_schema
from prsm_core.domain.tools import ORCHESTRATION_TOOLS
from prsm_core.errors import MessageRoutingError, OrchestrationError
from prsm_core.plugins.objects import load_object
from prsm_testing.bound import bounded
from prsm_testing.doubles import tried_with

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prsm_core.domain.permissions import Question
    from prsm_core.interfaces.tool import PeerMessage, PeerNow, ToolContribution, WhenLabels


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


OTHER_LABELS: Sequence[Mapping[str, str]] = ({}, {"team": "blue"}, {"a/b": "", "ü": "x" * 4096})


@bounded
class ToolContract(ABC):
    """What every tool of a plugin does; each test's docstring is the rule."""

    spec: ClassVar[ToolContribution]  # the record that the plugin registers
    settings: ClassVar[Mapping[str, Any]] = {}  # what its entry in the configuration says
    labels: ClassVar[Mapping[str, str]]  # of an agent that has the tool
    samples: ClassVar[Sequence[Mapping[str, Any]]]  # arguments of calls, good and bad ones
    bound_s: ClassVar[float] = 30.0  # for a test in all; one that hangs fails, and says where

    def call(
        self, args: Mapping[str, Any], *, labels: Mapping[str, str] | None = None, **fields: Any
    ) -> RecordingToolCall:
        """Return a call of an agent that has the tool; see RecordingToolCall."""
        said = self.labels if labels is None else labels
        return RecordingToolCall(self.spec, args, labels=said, **fields)

    async def answer(self, call: RecordingToolCall) -> Mapping[str, Any]:
        """Return what the handler answers; raises what it raises."""
        answer: Any = tried_with(self.spec, self.settings)(call)
        answered: Mapping[str, Any] = await answer if inspect.isawaitable(answer) else answer
        return answered

    async def test_its_name_is_its_own(self) -> None:
        """None of PRSM's own tools is called so, and the model is told what it does."""
        assert self.spec.name not in ORCHESTRATION_TOOLS
        assert self.spec.description.strip()

    async def test_its_arguments_take_the_samples(self) -> None:
        """A model is shown a JSON Schema that is made of them; the samples fit them."""
        schema = json_schema(self.spec.arguments)
        assert json.loads(json.dumps(schema)) == schema
        for args in self.samples:
            assert find_fault(self.spec.arguments, dict(args)) is None, args

    async def test_it_says_who_has_it(self) -> None:
        """With True or False, by the labels alone, whatever these are; it changes none of them."""
        for before in (self.labels, *OTHER_LABELS):
            labels = dict(before)
            asked = [self._when(labels) for _ in range(2)]
            assert labels == before
            assert asked[0] is asked[1]
            assert isinstance(asked[0], bool)
            assert asked[0] or before is not self.labels, "these are of an agent that has it"

    async def test_it_answers_with_json_or_an_error_with_a_hint(self) -> None:
        """What a model can do nothing about is an error of the plugin: it raises nothing else."""
        for args in self.samples:
            call = self.call(args)
            answered = self.answer(call)
            answer: object = (await asyncio.gather(answered, return_exceptions=True))[0]
            if isinstance(answer, OrchestrationError):
                assert answer.hint, answer.message
                assert answer.code != "bad_labels", answer.message  # which no model can mend
            else:
                assert isinstance(answer, Mapping), (args, answer)
                assert json.loads(json.dumps(dict(answer), allow_nan=False)) == answer, args

    async def test_one_that_is_repeatable_does_nothing(self) -> None:
        """A crash may lose such a call, and nobody can tell."""
        for args in self.samples if self.spec.is_repeatable else ():
            call = self.call(args)
            await asyncio.gather(self.answer(call), return_exceptions=True)
            assert (call.changes, call.sent, call.asked) == ({}, [], [])

    async def test_it_changes_nothing_of_what_it_is_given(self) -> None:
        """The ledger has the arguments as they were."""
        for args in self.samples:
            call, before = self.call(args), copy.deepcopy(dict(args))
            await asyncio.gather(self.answer(call), return_exceptions=True)
            assert dict(call.args) == before

    def _when(self, labels: Mapping[str, str]) -> bool:
        when: WhenLabels = load_object(self.spec.when, plugin=self.spec.name)
        return when(labels)
