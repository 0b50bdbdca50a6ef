"""The contracts of the kinds that the distribution contributes, on what it contributes."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest
from prsm_regions.extension.frontend import ExtensionFrontend
from prsm_regions.provider import build
from prsm_testing import ClientFrontendContract, ProgramHost, ProgramProviderContract

from prsm_core import AgentRole, AgentState, Answer, ChildNow, ToolOutcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core import HubFrontend, Provider, ProviderServices

PLAN = [
    {"name": "ui", "description": "the page", "region": "ui"},
    {"name": "core", "description": "the parser", "region": "core", "depends_on": ["ui"]},
]


def told(**data: Any) -> ToolOutcome:
    return ToolOutcome(text=json.dumps(data), data=data)


class Engine:
    """As much of one as a plan needs: children that ask once, fail once, and then succeed."""

    def __init__(self) -> None:
        self.messages: deque[dict[str, Any]] = deque()
        tools = (
            *(self.recommend_model, self.get_budget, self.spawn_child, self.restart_child),
            *(self.wait_for_message, self.respond_to_child, self.get_child_history),
            self.task_complete,
        )
        self.host = ProgramHost(
            answer=Answer(choices=("yes",)), **{tool.__name__: tool for tool in tools}
        )

    async def recommend_model(self, **_: Any) -> ToolOutcome:
        return told(usable=[{"model": "codex/m"}], models=[{"model": "codex/m"}])

    async def get_budget(self, **_: Any) -> ToolOutcome:
        return told(run={"tokens": {"left": 1_000_000}})

    async def spawn_child(self, **given: Any) -> ToolOutcome:
        agent, labels = self.add_child(given["labels"])
        if labels["regions/role"] == "planner":
            self.ends(agent, summary=json.dumps(PLAN))
        elif labels["regions/name"] == "ui":
            self.messages.append(
                {"type": "question", "from": agent, "correlation_id": "q",
                 "text": "I need the type signature of Store from /core/store"}
            )  # fmt: skip
        else:
            self.ends(agent, success=False, error="it broke")
        return told(agent_id=agent)

    def add_child(self, given: Mapping[str, str | None]) -> tuple[str, dict[str, str]]:
        """Add an agent, and return its id and labels."""
        agent = f"agent{len(self.host.known)}"
        labels = {name: text for name, text in given.items() if text is not None}
        self.host.known.append(
            ChildNow(
                agent_id=agent, name=agent, role=AgentRole.WORKER, state=AgentState.RUNNING,
                incarnation=1, provider="codex", model="m", cwd="/", region=None, labels=labels,
            )
        )  # fmt: skip
        return agent, labels

    def ends(self, agent: str, **how: Any) -> None:
        message = {"type": "task_result", "from": agent, "success": True, "summary": "made"}
        self.messages.append({**message, **how})

    async def restart_child(self, **given: Any) -> ToolOutcome:
        self.ends(given["child_id"])
        return told(agent_id=given["child_id"])

    async def respond_to_child(self, **given: Any) -> ToolOutcome:
        self.ends(given["child_id"])
        return told(ok=True)

    async def wait_for_message(self, **_: Any) -> ToolOutcome:
        await asyncio.sleep(0)
        return told(**(self.messages.popleft() if self.messages else {"type": "nothing_left"}))

    async def get_child_history(self, **_: Any) -> ToolOutcome:
        return told(entries=[], left_out=0)

    async def task_complete(self, **_: Any) -> ToolOutcome:
        return ToolOutcome(text='{"ok":true}', ends_turn=True)


class TestRegions(ProgramProviderContract):
    prefix = "regions/"
    task = "build auth"
    kill_every = 5

    def build(self, settings: Mapping[str, Any], services: ProviderServices) -> Provider:
        return build(settings, services)

    def host(self) -> ProgramHost:
        return Engine().host


@pytest.mark.long
class TestRegionsKilledAtEachCall(TestRegions):
    kill_every = 1


class TestExtension(ClientFrontendContract):
    def build(self, settings: Mapping[str, Any]) -> HubFrontend:
        return ExtensionFrontend(settings)

    def begins(self, task: str) -> Mapping[str, Any]:
        return {"type": "run", "intent": task}
