"""A team with one odd agent: its CLI misbehaves, the others must not feel it."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_claude.plugin import prsm_providers

from plugins.prsm_claude.tests.faults import KEY
from plugins.prsm_codex.tests.odd_team import Outcome, check_end, held
from plugins.prsm_codex.tests.rush_clock import RushClock
from prsm_core.testing.doubles import until
from tests.engine.harness import open_team

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from prsm_core.domain.agents import AgentResult
    from tests.engine.harness import Team

FAKE = Path(__file__).with_name("fake_claude.py")
BEAT_SECONDS = 0.02
NOWHERE = "http://127.0.0.1:1"  # a fault needs no model
LONGEST_GAP = 2.0  # seconds without a beat; far above what a busy machine needs


def fake_command(fault: str) -> list[str]:
    """Return the command of a CLI with a fault."""
    return [sys.executable, "-I", "-S", str(FAKE), f"--fault={fault}"]


@dataclass(kw_only=True)
class OddTeam:
    """How to run a team: `command` is that of its CLI.

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
        before = held()
        outcome = await self._run()
        await until(lambda: not family(self.folder))
        after = held()
        assert after == before, (after, before)
        assert KEY not in json.dumps(outcome.ledger.events())
        for name, result in outcome.results.items():
            check_end(outcome.ledger, name, result)
        return outcome

    async def _run(self) -> Outcome:
        clock, over = RushClock(), asyncio.Event()
        results: dict[str, AgentResult] = {}
        beats = [time.monotonic()]

        async def master(agent):
            await agent.spawn(name="neighbour")
            await agent.spawn("Misbehave.", name="odd", model="claude/default")
            await agent.collect(1)
            results["odd"] = team["odd"].result
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
            others=[*prsm_providers()],
        ) as team:
            team.engine.start_soon(self._hurry(team), name="hurry")
            result = await team.run("do it", master=master, neighbour=neighbour)
        assert result.status == "completed", result
        assert max(later - earlier for earlier, later in pairwise(beats)) < LONGEST_GAP
        return Outcome(results=results, ledger=team.ledger, usage=result.usage)

    async def _hurry(self, team: Team) -> None:
        await until(lambda: (claude_home(self.folder) / "begun").exists(), timeout_s=60)
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
        claude = {"command": self.command, "base_url": NOWHERE, **self.settings}
        return {"defaults": {"provider": "script"}, "providers": {"claude": claude}}


def claude_home(folder: Path) -> Path:
    """Return the CLAUDE_CONFIG_DIR of a team in this folder."""
    return folder / "state" / "providers" / "claude" / "claude-home"


def family(folder: Path) -> list[int]:
    """Return the processes that a CLI left about and that still live."""
    path = claude_home(folder) / "family"
    pids = json.loads(path.read_text()) if path.exists() else []
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]
