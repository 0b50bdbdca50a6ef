"""The children of a program: how it calls for them, hears of them, and what is noted of that."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, TypeVar

from prsm_core import OrchestrationError, Question, StepEnded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from prsm_core import AgentHost, Answer, ChildNow, ProviderEvent, ToolOutcome
    from prsm_regions.notes import Notes

    Tell = Callable[[ProviderEvent], Awaitable[None]]
    Arguments = Callable[[], Awaitable[Mapping[str, Any]]]


T = TypeVar("T")


class Team:
    """Makes the calls of one turn, each by a key of its own, so that a resume makes none twice.

    Messages are handled in the order of the ledger; those that come meanwhile are kept.
    """

    def __init__(self, host: AgentHost, notes: Notes, tell: Tell) -> None:
        self.host = host
        self.notes = notes
        self.tell = tell
        self._kept: deque[Mapping[str, Any]] = deque()
        self._numbers: Counter[str] = Counter()

    async def call(
        self, key: str, tool: str, make: Arguments | None = None, *, waits: bool = False
    ) -> ToolOutcome:
        """Call a tool; its arguments, if it has any, are made once, whatever happens."""
        arguments = {} if make is None else await self.notes.once(f"{key}?", make)
        call_id = f"regions-{self.notes.number}-{key}"
        if not waits:
            return await self.host.call_tool(tool, arguments, call_id=call_id)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(self.host.call_tool(tool, arguments, call_id=call_id))
            await asyncio.sleep(0)  # in its first step it reaches the host
            if not running.done():
                await self.tell(StepEnded())
        return running.result()

    async def say(self, key: str, tool: str, **arguments: Any) -> ToolOutcome:
        """Call a tool whose arguments are known."""

        async def given() -> Mapping[str, Any]:
            return arguments

        return await self.call(key, tool, given if arguments else None)

    def child(self, agent: str) -> ChildNow | None:
        """Return a child as it is now."""
        return next((one for one in self.host.children() if one.agent_id == agent), None)

    async def next_message(self) -> Mapping[str, Any]:
        """Return the next message: question, task_result, user_prompt or nothing_left."""
        if not self._kept:
            self._kept.extend(await self._receive())
        return self._kept.popleft()

    async def _receive(self) -> Sequence[Mapping[str, Any]]:
        key = f"wait{self.number('wait')}"
        answer = data_of(await self.call(key, "wait_for_message", waits=True))
        return answer, *answer.get("others", ())

    async def hear(self, agent: str) -> Mapping[str, Any]:
        """Return the next message of one agent, or that nothing is left; keep all others."""
        while (message := self._take_of(agent)) is None:
            first, *others = await self._receive()
            if first["type"] == "nothing_left":
                return first
            if not first.get("reminder"):  # of a question that is being answered just now
                self._kept.append(first)
            self._kept.extend(others)
        return message

    def _take_of(self, agent: str) -> Mapping[str, Any] | None:
        """Take the oldest message of an agent that has come already."""
        for message in self._kept:
            if message.get("from") == agent:
                self._kept.remove(message)
                return message
        return None

    def number(self, what: str) -> int:
        """Return the next number of something in this turn, from 1."""
        self._numbers[what] += 1
        return self._numbers[what]

    async def once_heard(self, key: str, make: Callable[[], Awaitable[T]]) -> T:
        """Return what `make` gave the first time, with what others had said by then."""
        is_new = False

        async def made() -> dict[str, Any]:
            nonlocal is_new
            is_new = True
            given = await make()
            return {"made": given, "kept": list(self._kept), "numbers": dict(self._numbers)}

        noted = await self.notes.once(key, made)
        if not is_new:
            self._kept = deque(noted["kept"])
            self._numbers = Counter(noted["numbers"])
        return noted["made"]  # type: ignore[no-any-return]

    async def consult(self, key: str, agent: str) -> Mapping[str, Any]:
        """Return the result of an agent, whose questions a person answers meanwhile."""
        number = 0
        while True:
            message = await self.hear(agent)
            if message["type"] != "question":
                return message
            number += 1
            question = Question(text=f"{message['name']} asks: {message['text']}")
            answer = await self.ask(f"{key}q{number}", question)
            text = answer["text"] or ", ".join(answer["choices"])
            await self.respond(f"{key}q{number}", message, text)

    async def respond(self, key: str, question: Mapping[str, Any], text: str) -> None:
        """Answer a child's question; one whose asker has ended needs none."""
        await self.say(
            f"{key}respond",
            "respond_to_child",
            child_id=question["from"],
            correlation_id=question["correlation_id"],
            response=text,
        )

    async def ask(self, key: str, question: Question) -> dict[str, Any]:
        """Ask a person, once; return their `choices` and `text`."""

        async def answer() -> dict[str, Any]:
            given: Answer = await self.host.ask_user(question)
            return {"choices": list(given.choices), "text": given.text or ""}

        return await self.notes.once(f"{key}ask", answer)

    async def label(self, key: str, agent: str | None = None, **labels: str | None) -> None:
        """Say something of this agent, or of a child, once; it is in the ledger then."""

        async def relabel() -> bool:
            changes = {f"regions/{name}": text for name, text in labels.items()}
            await self.host.relabel(changes, agent)
            return True

        await self.notes.once(f"{key}label", relabel)

    async def event(self, key: str, event: ProviderEvent) -> None:
        """Tell of something, once."""

        async def told() -> bool:
            await self.tell(event)
            return True

        await self.notes.once(f"{key}event", told)


def reviewer(prompt: str, model: str, role: str) -> dict[str, Any]:
    """Return the arguments that spawn a child which says something and changes nothing."""
    labels = {"regions/state": None, "regions/role": role}
    return {"prompt": prompt, "model": model, "role": "reviewer", "mode": "plan", "labels": labels}


def data_of(outcome: ToolOutcome) -> Mapping[str, Any]:
    """Return what a call answered; raise OrchestrationError, with the cure, for an error."""
    if outcome.is_error or not isinstance(outcome.data, dict):
        raise OrchestrationError(outcome.text)
    return outcome.data
