"""Whole runs of `prsm` with programs in boxes, and with whatever can be killed killed."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from plugins.prsm_protocols.tests.acting import mostly_long, open_server
from plugins.prsm_protocols.tests.test_boxed import LANGUAGES, LIMITS
from plugins.prsm_protocols.tests.test_clients import CLIENTS, write_pages
from tests.engine.boxes import needs_runc
from tests.live.conftest import ScriptedPrsm
from tests.person import room

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator, Mapping

    from plugins.prsm_protocols.tests.acting import Server

pytestmark = needs_runc
SEED = int(os.environ.get("PRSM_KILLS_SEED", "7"))
UNDER = ("run", "--provider", "program", "--trust", "--on-ask", "deny", "--json")


class Programs(ScriptedPrsm):
    """Runs `prsm` with one program."""

    def program(self, *argv: str, others: Mapping[str, Any] | None = None, **section: Any) -> None:
        """Configure the program, and other providers."""
        given = {"command": list(argv), "mounts": {"/clients": str(CLIENTS)}, **LIMITS, **section}
        self.write({"providers": {"program": given, **(others or {})}})

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """Return the events of the newest session, of these kinds."""
        told = self.run("events", "--json").stdout
        events = [json.loads(line) for line in told.splitlines()]
        return [event for event in events if event["type"] in kinds]

    def states(self) -> list[str]:
        """Return the states that the agent was in, one for each change of it."""
        return states_in(self.events("agent_labels_changed"))


def states_in(events: list[dict[str, Any]]) -> list[str]:
    """Return the states that events tell of, one for each change."""
    labels = [event["labels"] for event in events if event["type"] == "agent_labels_changed"]
    return [told["protocols/state"] for told in labels]


def made_in(events: list[dict[str, Any]]) -> list[str]:
    """Return where the calls of state_transition led that have moved the agent."""
    wanted: dict[str, str | None] = {}
    made = []
    for event in events:
        if event["type"] == "tool_call_started" and event["tool"] == "state_transition":
            wanted[event["call"]] = event["arguments"].get("to")
        elif event["type"] == "tool_call_finished" and event["status"] == "completed":
            made.append(wanted.get(event["call"]))
    return [to for to in made if to is not None]


@pytest.fixture
def prsm() -> Iterator[Programs]:
    """Return a `prsm` with a home outside the temp directory, which a box has of its own."""
    home = room()
    runner = Programs(home)
    yield runner
    for pid in runner.processes():
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(home)


@pytest.mark.parametrize(
    ("way", "language"),
    mostly_long(("socket", "redis", "valkey"), tuple(LANGUAGES), ("socket", "python")),
)
@pytest.mark.requirement("A11", "A12", "F8")
async def test_the_workflow_under_the_real_engine(prsm, language, way):
    program, script = LANGUAGES[language]
    write_pages(prsm.workspace)
    async with AsyncExitStack() as stack:
        section: dict[str, Any] = {}
        if way != "socket":
            server = await stack.enter_async_context(open_server(way, prsm.home / "server"))
            section = {"redis": server.unix_url}
            if language == "bash":
                section = {"redis": server.url, "network": True}
        prsm.program(program, f"/clients/{script}", **section)
        code, _, err = await prsm.run_async(*UNDER, "--label", "protocol=bootstrap", "Read it.")
    assert code == 0, err
    assert prsm.states() == ["bootstrap", "inbox"]
    (finished,) = prsm.events("run_finished")
    assert finished["summary"].endswith("has read everything")


DUO = "# Protocol: duo\n\n## States\n- talking: Write to each other\n"


@pytest.mark.requirement("A6", "A13", "A20")
async def test_two_programs_write_to_each_other_through_the_engine(prsm):
    """By all five parts: one starts them, one takes their requests, one judges, one routes.

    The fifth one measures, and is in nobody's way.
    """
    pages = prsm.workspace / ".prism" / "protocols"
    pages.mkdir(parents=True)
    (pages / "duo.md").write_text(DUO)
    children = [
        {"prompt": f"You are {name}.", "name": name, "model": "program/default"}
        for name in ("alice", "bob")
    ]
    calls = [
        ("spawn_children_parallel", {"children": children}),
        ("wait_for_message", {"all": True}),
        ("task_complete", {"summary": "both are done"}),
    ]
    steps = [{"call": {"tool": tool, "arguments": args}} for tool, args in calls]
    scenario = prsm.home / "scenario.yaml"
    scenario.write_text(json.dumps({"lanes": {"master": {"marker": "Talk.", "steps": steps}}}))
    prsm.program("bash", "/clients/duo.sh", others={"script": {"scenario": str(scenario)}})
    under = ("run", "--provider", "script", *UNDER[3:], "--label", "protocol=duo")
    code, out, err = await prsm.run_async(*under, "Talk.")
    assert code == 0, (err, out[-3000:])
    sent = [event for event in prsm.events("tool_call_started") if event["tool"] == "message_send"]
    assert [event["arguments"]["text"] for event in sent] == ["ping", "pong to ping"]
    assert "alice: pong to ping" in out
    files = prsm.home.rglob("_measurements/*/*.jsonl")
    measured = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    sent_by = [one["agent_name"] for one in measured if one["kind"] == "sent"]
    assert sorted(sent_by) == ["alice", "bob"]
    assert {one["protocol"].partition("@")[0] for one in measured} == {"duo"}


async def test_a_program_that_asks_the_same_again_and_again_is_not_taken_for_stuck(prsm):
    pages = prsm.workspace / ".prism" / "protocols"
    pages.mkdir(parents=True)
    (pages / "duo.md").write_text(DUO)
    prsm.program("bash", "-c", "for n in {1..12}; do aism message next; done; aism complete polled")
    code, _, err = await prsm.run_async(*UNDER, "--label", "protocol=duo", "Poll.")
    assert code == 0, err
    polls = [event["tool"] for event in prsm.events("tool_call_started")].count("message_next")
    assert polls == 12
    assert [told["text"] for told in prsm.events("notice") if "stuck" in told["text"]] == []


def ladder(workspace: Path, rungs: int) -> None:
    pages = workspace / ".prism" / "protocols"
    pages.mkdir(parents=True)
    states = "".join(f"- s{n}: Rung {n}\n" for n in range(rungs + 1))
    moves = "".join(f"- s{n} -> s{n + 1}: When it is time\n" for n in range(rungs))
    text = f"# Protocol: ladder\n\n## States\n{states}\n## Transitions\n{moves}"
    (pages / "ladder.md").write_text(text)


KINDS = ("engine", "container", "redis", "empty redis")


class Climb:
    """A run of the ladder, and what is killed of it, in an order that the seed chooses."""

    def __init__(self, prsm: Programs, server: Server | None, kills: int, seed: int) -> None:
        self.prsm = prsm
        self.server = server
        self.chance = random.Random(seed)
        kinds = KINDS if server else KINDS[:2]
        self.todo = [kinds[n % len(kinds)] for n in range(kills)]
        self.chance.shuffle(self.todo)
        self.killed: Counter[str] = Counter()
        self.height = 0  # of the last look into the ledger
        self.process: asyncio.subprocess.Process

    async def run(self) -> int:
        """Kill each in its turn, a few lines of output after the last one; return the exit code."""
        self.process = await self._start(*UNDER, "--label", "protocol=ladder", "Climb.")
        lines = self.chance.randint(1, 7)
        while True:
            assert self.process.stdout is not None
            if not await self.process.stdout.readline():
                return await self.process.wait()
            lines -= 1
            if lines <= 0 and self.todo and await self._kill(self.todo[-1]):
                self.killed[self.todo.pop()] += 1
                await self.look()
                lines = self.chance.randint(1, 7)

    async def look(self) -> None:
        """See that each move up to now is in the ledger once, with all that the program knows of.

        So is the call that made it, and that once.
        """
        agents = self.prsm.home / "prsm" / "state" / "providers" / "program" / "agents"
        paths = agents.glob("*/home/made")
        known = {line for path in paths for line in path.read_text().splitlines()}
        events = await self.prsm.ledger()
        states, made = states_in(events), made_in(events)
        assert states == [f"s{n}" for n in range(len(states))], "a move is lost or doubled"
        assert known <= set(states), "a move that the program was told of is lost"
        assert len(states) >= self.height, "what was in the ledger is lost"
        self.height = len(states)
        assert made == states[1:], "a move has no call of its own"

    async def _start(self, *args: str) -> asyncio.subprocess.Process:
        process: asyncio.subprocess.Process = await self.prsm.start(*args, stderr=None)
        return process

    async def _kill(self, what: str) -> bool:
        """Kill it; return False where it is not there just now."""
        if what == "engine":
            self.process.kill()
            await self.process.wait()
            self.process = await self._start("resume", "--trust", "--on-ask", "deny", "--json")
        elif what == "container":
            found = self._containers()
            for pid in found:
                os.kill(pid, signal.SIGKILL)
            return bool(found)
        elif self.server is not None:
            await self.server.kill(empty=what == "empty redis")
            await self.server.start()
        return True

    def _containers(self) -> list[int]:
        """Return the first process of each container, with which the kernel ends all others."""
        found = []
        for pid in self.prsm.processes():
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0] == b"/bin/sh" and b"/clients/ladder.py" in words:
                found.append(pid)
        return found


async def climb(prsm: Programs, way: str, kills: int, seed: int) -> Climb:
    rungs = kills * 3
    ladder(prsm.workspace, rungs)
    async with AsyncExitStack() as stack:
        server, section = None, dict[str, Any]()
        if way != "socket":
            server = await stack.enter_async_context(open_server(way, prsm.home / "server"))
            section = {"redis": server.unix_url}
        prsm.program("/usr/bin/python3", "/clients/ladder.py", restarts=10, **section)
        run = Climb(prsm, server, kills, seed)
        code = await run.run()
        assert code == 0, (code, prsm.events("run_finished", "notice")[-5:])
    assert run.todo == [], "the run was over before everything was killed"
    await run.look()
    assert run.height == rungs + 1
    await prsm.until_gone()
    return run


@pytest.mark.requirement("A15")
@pytest.mark.parametrize("way", [pytest.param("socket", marks=pytest.mark.long), "valkey"])
async def test_whatever_is_killed_each_move_is_made_once(prsm, way):
    await climb(prsm, way, kills=3, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("way", ["socket", "redis", "valkey"])
@pytest.mark.parametrize("seed", range(5))
async def test_ten_kills_and_each_move_is_made_once(prsm, way, seed):
    await climb(prsm, way, kills=10, seed=seed)


@pytest.mark.long
@pytest.mark.requirement("A15")
@pytest.mark.parametrize("way", ["redis", "valkey"])
async def test_fifty_kills_and_each_move_is_made_once(prsm, way):
    run = await climb(prsm, way, kills=50, seed=SEED)
    assert any(run.prsm.home.rglob("home/made"))
    told = f"{run.killed.total()} kills: {dict(run.killed)}; {run.height - 1} moves, each once"
    print(told)  # noqa: T201 - for who waited for it
    assert run.killed == {"engine": 13, "container": 13, "redis": 12, "empty redis": 12}
