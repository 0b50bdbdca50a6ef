"""protocols: a page compiled, a decision held to a state, and a move from one to another."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec.structs import replace

from benchmarks.harness import Absent, compared
from benchmarks.policy import USUAL
from benchmarks.team import DONE, open_team
from prsm_core import AgentRole, PermissionContext, PermissionMode, PermissionRequest
from prsm_core.config import Settings
from prsm_core.engine.tools.table import TOOLS, Tool, ToolTable
from prsm_core.permissions import PermissionBroker
from prsm_core.store.sqlite import SqliteStore
from tests.command_policies import policy_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from benchmarks.harness import Finding, Plan
    from benchmarks.team import Calls
    from prsm_core import PermissionCheckSpec

STATES = 200
STATES_OF_A_WALK = 10
DECISIONS = 2_000
MOVES = 400
GOAL_COMPILE = 3.0
GOAL_DECISION = 1.1
GOAL_MOVE = 1.2


def measure(plan: Plan) -> list[Finding | Absent]:
    """Compare with what each is made of: the parser, and a decision of nobody's protocol."""
    if find_spec("prsm_protocols") is None:
        return [Absent(benchmark="protocols", case="all", why="prsm-protocols is not installed")]
    return [compiling(plan), deciding(plan), moving(plan)]


def page(states: int, tools: str = "Read, Grep, Edit") -> str:
    """Return a page of so many states, each with tools, a message and moves to two others."""
    allows = f"  - tools: {tools}\n" if tools else ""
    listed = "\n".join(
        f"- s{n}: Does what number {n} is there for\n{allows}"
        f"  - message: You are in state {n}. Do what it is there for."
        for n in range(states)
    )
    moves = "\n".join(
        f"- s{n} → s{target}: When it is time for the next one"
        for n in range(states)
        for target in sorted({(n + 1) % states, (n + 7) % states} - {n})
    )
    return f"# Protocol: p\n\n## States\n{listed}\n\n## Transitions\n{moves}\n"


def compiling(plan: Plan) -> Finding:
    """Compare a page that is read, compiled and hashed with the same page parsed as markdown."""
    from markdown_it import MarkdownIt
    from prsm_protocols.compiled import compile_pages
    from prsm_protocols.reading import read_page

    text = page(plan.count(STATES))
    parser = MarkdownIt("commonmark")

    def ours() -> None:
        source, problems = read_page(text, "p.md")
        if source is None:
            raise RuntimeError(str(problems[0]))
        protocol = compile_pages([source])[0].get("p")
        if protocol is None or not protocol.digest:
            raise RuntimeError("the page has no hash")

    return compared(
        "protocols",
        f"{plan.count(STATES)} states compiled",
        lambda: _milliseconds(ours),
        lambda: _milliseconds(lambda: parser.parse(text)),
        plan,
        goal=GOAL_COMPILE,
        unit="ms",
    )


def _milliseconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return 1000 * (time.process_time() - begin)


def deciding(plan: Plan) -> Finding:
    """Compare decisions on usual commands of an agent under a protocol with those of another."""
    from prsm_protocols.plugin import prsm_permission_checks

    (spec,) = prsm_permission_checks()
    count = plan.count(DECISIONS)
    with _pinned() as (workspace, labels):
        return compared(
            "protocols",
            "a decision with the check",
            lambda: decision_cost(workspace, {spec.name: spec}, labels, count),
            lambda: decision_cost(workspace, {}, labels, count),
            plan,
            goal=GOAL_DECISION,
        )


def decision_cost(
    workspace: str, checks: Mapping[str, PermissionCheckSpec], labels: Mapping[str, str], count: int
) -> float:
    """Return the CPU microseconds of a decision on one of the usual commands."""
    settings = Settings().permissions
    broker = PermissionBroker(
        settings,
        checks=checks,
        orchestration=(),
        commands=policy_for(settings),
    )
    context = PermissionContext(
        mode=PermissionMode.DEFAULT,
        role=AgentRole.WORKER,
        provider="stub",
        workspace=workspace,
        tools=frozenset({"Bash"}),
        labels=labels,
    )
    requests = [
        PermissionRequest(agent_id="a", tool="Bash", command=f"{command} # {number}", cwd=workspace)
        for number, command in ((n, USUAL[n % len(USUAL)]) for n in range(count))
    ]

    async def decide() -> float:
        await broker.decide(requests[0], context)  # it loads its policy and its checks
        begin = time.process_time()
        for request in requests:
            await broker.decide(request, context)
        return time.process_time() - begin

    return 1e6 * asyncio.run(decide()) / count


def moving(plan: Plan) -> Finding:
    """Compare moves of a child with its reports of progress, both on disk when answered."""
    count = plan.count(MOVES)

    def progress() -> Calls:
        for number in range(count):
            yield "report_progress", {"status": f"part {number}", "percent": number * 99 / count}

    def moves() -> Calls:
        for number in range(count):
            at = (number + 1) % STATES_OF_A_WALK
            yield "state_transition", {"to": f"s{at}", "context": {"part": number}}

    return compared(
        "protocols",
        f"{count} transitions of an agent",
        lambda: calls_cost(moves, count),
        lambda: calls_cost(progress, count),
        plan,
        goal=GOAL_MOVE,
    )


def calls_cost(calls: Callable[[], Calls], count: int) -> float:
    """Return the CPU microseconds of one of the calls that a child makes, under a protocol."""
    from prsm_protocols.places import PAGES
    from prsm_protocols.plugin import prsm_tools

    costs: list[float] = []

    def child() -> Calls:
        if calls.__name__ == "moves":
            yield "state_transition", {}  # it is pinned by then
        begin = time.process_time()
        yield from calls()
        costs.append(time.process_time() - begin)
        yield DONE

    def behave(prompt: str) -> Calls:
        return child() if prompt == "work" else _lead()

    async def run(folder: Path) -> None:
        store = await SqliteStore.open(folder / "ledger.db")
        tools = ToolTable([durable(tool) for tool in TOOLS]).with_added(list(prsm_tools()))
        workspace = str(folder / "workspace")
        async with store, open_team(behave, store=store, tools=tools, workspace=workspace) as team:
            await team.run(labels={"protocol": "p"})

    with _home() as folder:
        pages = folder / "workspace" / PAGES
        pages.mkdir(parents=True)
        (pages / "p.md").write_text(page(STATES_OF_A_WALK, tools=""))
        asyncio.run(run(folder))
    return 1e6 * costs[0] / count


def durable(tool: Tool) -> Tool:
    """Return a tool whose answers wait for their commit, as that to a transition does."""
    is_it = tool.spec.name == "report_progress"
    return replace(tool, is_repeatable=False) if is_it else tool


def _lead() -> Calls:
    yield "spawn_child", {"prompt": "work", "name": "child", "wait": True}
    yield DONE


@contextmanager
def _home() -> Iterator[Path]:
    """Give a folder, which is the home of PRSM meanwhile."""
    before = os.environ.get("PRSM_HOME")
    with TemporaryDirectory(prefix="prsm-benchmark-") as folder:
        os.environ["PRSM_HOME"] = str(Path(folder, "home"))
        try:
            yield Path(folder)
        finally:
            if before is None:
                del os.environ["PRSM_HOME"]
            else:
                os.environ["PRSM_HOME"] = before


@contextmanager
def _pinned() -> Iterator[tuple[str, dict[str, str]]]:
    """Give a workspace, and the labels of an agent `a` that is in a state which allows Bash."""
    from prsm_protocols.compiled import compile_pages
    from prsm_protocols.kept import Kept
    from prsm_protocols.labels import Pin, changes_to
    from prsm_protocols.reading import read_page

    source, problems = read_page(page(STATES_OF_A_WALK, tools="Bash, Read, Grep, Edit"), "p.md")
    if source is None:
        raise RuntimeError(str(problems[0]))
    protocol = compile_pages([source])[0].get("p")
    if protocol is None:
        raise RuntimeError("there is no protocol p")
    with _home() as folder:
        Kept().put(protocol)
        pin = Pin(protocol=protocol.id, state="s0", since=time.time())
        yield str(folder), {"protocol": "p", **changes_to(pin, "a", {})}
