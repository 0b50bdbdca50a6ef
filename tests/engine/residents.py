"""Scripted agents whose sessions hold a process each, and who know what earlier ones called."""

from __future__ import annotations

from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prsm_testing.fake_clock import FakeClock

from prsm_core.interfaces.provider import ProviderCapabilities
from tests.engine.harness import ScriptedProvider, ScriptedSession, open_team

if TYPE_CHECKING:
    from tests.engine.harness import Actor

OWN = {
    level: ProviderCapabilities(
        enforcement="pre_tool", resume=level, own_process=True, steer=True, images=True
    )
    for level in ("call", "native", "rebuild")
}


class ResidentSession(ScriptedSession):
    """A session whose vendor can be given answers in their places, where it says so."""

    def __init__(self, provider: ResidentProvider, request, host) -> None:
        super().__init__(provider, request, host)
        self._parking = provider
        if request.carried is not None and provider.capabilities.resume == "call":
            self.taken = frozenset((*request.answers, *request.carried.prompts))

    async def park(self) -> bool:
        self._parking.parked.append(self.request.name)
        await self._parking.on_park(self.request.name)
        return False


async def _nothing(_name: str) -> None:
    """Do nothing as a session is parked."""


@dataclass
class ResidentProvider(ScriptedProvider):
    """Each open session holds a process, which ends with it."""

    resident: dict[str, Any] = field(default_factory=dict)  # the processes, by agent
    crowd: int = 0  # the most of them at one time
    parked: list[str] = field(default_factory=list)  # whose session was, in order of time
    on_park: Any = _nothing

    @asynccontextmanager
    async def open_session(self, request, host):
        self.refuse(request)
        clock = self.services.clock
        held = clock.hold if isinstance(clock, FakeClock) else nullcontext
        with held():
            process = await self.services.start_process(("sleep", "600"), name=request.name)
        self.requests[request.name].append(request)
        self.resident[request.name] = process
        self.crowd = max(self.crowd, len(self.resident))
        try:
            yield ResidentSession(self, request, host)
        finally:
            with held():
                process.kill()
                await process.wait()
            del self.resident[request.name]


def open_residents(folder, limit, *, level="call", engine=None, **fields):
    """Open a team whose sessions hold a process each, of which there may be so many."""
    given = {"max_resident_processes": limit, **(engine or {})}
    return open_team(
        folder,
        engine=given,
        make_provider=ResidentProvider,
        capabilities=OWN[level],
        gives_tokens=True,
        **fields,
    )


async def once(agent: Actor, call_id: str, tool: str, /, **arguments) -> dict[str, Any]:
    """Have a call answered, once in however many sessions its turn has.

    One that was made in an earlier session is not made again: its answer came with this session.
    """
    known = agent.memory.setdefault("answers", {})
    if call_id not in known:
        outcome = agent.session.request.answers.get(call_id)
        outcome = outcome or await agent.outcome(tool, arguments, call_id=call_id)
        assert not outcome.is_error, outcome.text
        assert call_id not in known, f"{call_id} was answered twice"
        known[call_id] = dict(outcome.data)
    answer: dict[str, Any] = known[call_id]
    return answer


async def leads(agent):
    """Have a child work, and be told its result."""
    await once(agent, "spawn", "spawn_child", prompt="work", name="w1")
    found = await once(agent, "wait", "wait_for_message")
    await once(agent, "done", "task_complete", summary=f"all of {found['summary']}")


async def hangs(agent):
    """Work for ever, without a call."""
    await agent.hang()


async def asks_a_person(agent):
    """Have a child work; meanwhile ask a person, in the same response."""
    await once(agent, "spawn", "spawn_child", prompt="work", name="w1")
    answer = await once(agent, "ask", "ask_user", question="which?", options=["red", "blue"])
    found = await once(agent, "wait", "wait_for_message")
    said = f"{answer['choices'][0]} {found['summary']}"
    await once(agent, "done", "task_complete", summary=said)
