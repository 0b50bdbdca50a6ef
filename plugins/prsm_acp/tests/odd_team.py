"""A team with one odd agent: its process misbehaves, the others must not feel it."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_acp.config import AcpConfig
from prsm_acp.manifest import McpPlace
from prsm_acp.provider import AcpProvider

from plugins.prsm_acp.tests.fake_manifest import FAKE, MANIFEST
from plugins.prsm_acp.tests.faults import KEY
from plugins.prsm_acp.tests.rush_clock import RushClock
from prsm_core.interfaces.provider import ProviderSpec
from prsm_core.testing.doubles import until
from tests.engine.harness import open_team

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from prsm_core.domain.agents import AgentResult
    from prsm_core.domain.usage import TokenUsage
    from tests.engine.harness import Team
    from tests.engine.ledger import Ledger

BEAT_SECONDS = 0.02
LONGEST_REASON = 1000  # characters
LONGEST_GAP = 2.0  # seconds without a beat; far above what a busy machine needs


def build_odd(settings: Any, services: Any) -> AcpProvider:
    """Build the provider of the misbehaving agent, which takes no part in the tree."""
    manifest = replace(MANIFEST, mcp=McpPlace.NONE)
    return AcpProvider(AcpConfig.from_settings(settings), manifest, services)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run left behind, with the result of the misbehaving agent."""

    odd: AgentResult
    ledger: Ledger
    usage: TokenUsage

    @property
    def texts(self) -> list[str]:
        """What the odd agent said, message by message."""
        said = self.ledger.events("message_completed", "odd")
        return [event["text"] for event in said if event["role"] == "assistant"]

    @property
    def retries(self) -> list[float]:
        """The pauses before each further try of the odd agent, in seconds."""
        scheduled = self.ledger.events("retry_scheduled", "odd")
        return [event["delay_s"] for event in scheduled]


def fake_command(fault: str) -> list[str]:
    """Return the command of an agent with a fault."""
    return [*FAKE, f"--fault={fault}"]


@dataclass(kw_only=True)
class OddTeam:
    """How to run a team: `command` is that of its odd agent.

    Once the fault has begun, and the agent has `said` what is to be kept, time passes `rush` times
    as fast, and `meddle(team)` is called.
    """

    folder: Path
    command: list[str]
    rush: float = 1.0
    said: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    engine: dict[str, Any] = field(default_factory=dict)
    meddle: Callable[[Team], Awaitable[object]] | None = None

    async def run(self) -> Outcome:
        """Run it to the end and check what every run must keep."""
        fake_home(self.folder).mkdir(exist_ok=True)
        before = held()
        outcome = await self._run()
        await until(lambda: not family(self.folder))
        assert held() == before
        assert KEY not in json.dumps(outcome.ledger.events())
        check_end(outcome.ledger, outcome.odd)
        return outcome

    async def _run(self) -> Outcome:
        clock, over = RushClock(), asyncio.Event()
        beats = [time.monotonic()]
        results: list[AgentResult] = []

        async def master(agent):
            await agent.spawn(name="neighbour")
            await agent.spawn("Misbehave.", name="odd", model="odd/default")
            await agent.collect(1)
            results.append(team["odd"].result)
            over.set()
            await agent.collect()
            await agent.complete()

        async def neighbour(agent):
            while not over.is_set():
                # Its time is no reasoning, and another call each time is no agent that is stuck.
                await agent.start_tool(f"beat {len(beats)}", beat=len(beats))
                await asyncio.sleep(BEAT_SECONDS)
                await agent.end_tool(f"beat {len(beats)}")
                beats.append(time.monotonic())
            await agent.complete()

        async with open_team(
            self.folder,
            clock=clock,
            engine=self.engine,
            settings=self._all_settings(),
            others=[ProviderSpec(name="odd", summary="", factory=build_odd)],
        ) as team:
            team.engine.start_soon(self._hurry(team), name="hurry")
            result = await team.run("do it", master=master, neighbour=neighbour)
        assert result.status == "completed", result
        assert max(later - earlier for earlier, later in pairwise(beats)) < LONGEST_GAP
        return Outcome(odd=results[0], ledger=team.ledger, usage=result.usage)

    async def _hurry(self, team: Team) -> None:
        await until(lambda: (fake_home(self.folder) / "begun").exists(), timeout_s=60)
        await until(lambda: self._has_said(team), timeout_s=60)
        team.clock.rush(self.rush)
        if self.meddle is not None:
            await self.meddle(team)

    def _has_said(self, team: Team) -> bool:
        if not self.said:
            return True
        session = team["odd"].session
        return session is not None and self.said in session.partial_text

    def _all_settings(self) -> dict[str, Any]:
        env = {"FAKE_HOME": str(fake_home(self.folder))}
        odd = {"command": self.command, "env": env, **self.settings}
        return {"defaults": {"provider": "script"}, "providers": {"odd": odd}}


def fake_home(folder: Path) -> Path:
    """Return the FAKE_HOME of a team in this folder."""
    return folder / "home"


def check_end(ledger: Ledger, result: AgentResult) -> None:
    """One end, one result, and a reason that a person can read."""
    ends = [event["to"] for event in ledger.events("agent_state_changed", "odd")]
    assert sum(ends.count(state) for state in ("completed", "failed", "killed")) == 1
    routed = [e for e in ledger.events("message_routed", "odd") if e["kind"] == "task_result"]
    assert len(routed) == 1
    if not result.success:
        reason = result.error
        assert reason
        assert reason.isprintable()
        assert KEY not in reason
        assert "Traceback" not in reason
        assert len(reason) < LONGEST_REASON


def family(folder: Path) -> list[int]:
    """Return the processes that the agent left about and that still live."""
    path = fake_home(folder) / "family"
    pids = json.loads(path.read_text()) if path.exists() else []
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def held() -> dict[str, Any]:
    """Return what of the system this process holds: all of it must be given back."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {
        "fds": len(list(Path("/proc/self/fd").iterdir())),
        "tasks": len(asyncio.all_tasks()),
        "threads": len([t for t in threading.enumerate() if not t.name.startswith("asyncio_")]),
        "children": sorted(pid for path in tasks for pid in path.read_text().split()),
    }
