"""protocols: a page compiled, a decision held to a state, and a move from one to another."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.harness import Absent, compared
from benchmarks.policy import USUAL
from prsm_core import AgentRole, PermissionContext, PermissionMode, PermissionRequest
from prsm_core.config import Settings
from prsm_core.permissions import build_broker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks.harness import Finding, Plan
    from prsm_core import PermissionCheckSpec

STATES = 200
DECISIONS = 2_000
GOAL_COMPILE = 3.0
GOAL_DECISION = 1.1


def measure(plan: Plan) -> list[Finding | Absent]:
    """Compare with what each is made of: the parser, and a decision of nobody's protocol."""
    if find_spec("prsm_protocols") is None:
        return [Absent(benchmark="protocols", case="all", why="prsm-protocols is not installed")]
    return [compiling(plan), deciding(plan)]


def page(states: int) -> str:
    """Return a page of so many states, each with tools, a message and moves to two others."""
    listed = "\n".join(
        f"- s{n}: Does what number {n} is there for\n  - tools: Read, Grep, Edit\n"
        f"  - message: You are in state {n}. Do what it is there for."
        for n in range(states)
    )
    moves = "\n".join(
        f"- s{n} → s{(n + step) % states}: When it is time for the next one"
        for n in range(states)
        for step in (1, 7)
        if step % states
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


def _milliseconds(work: object) -> float:
    begin = time.process_time()
    work()  # type: ignore[operator]
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
    broker = build_broker(settings, workspace=workspace, checks=checks, orchestration=())
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


@contextmanager
def _pinned() -> Iterator[tuple[str, dict[str, str]]]:
    """Give a workspace, and the labels of an agent `a` that is in a state which allows Bash."""
    import os

    from prsm_protocols.compiled import compile_pages
    from prsm_protocols.kept import Kept
    from prsm_protocols.labels import Pin, changes_to
    from prsm_protocols.reading import read_page

    text = page(10).replace("Read, Grep, Edit", "Bash, Read, Grep, Edit")
    source, problems = read_page(text, "p.md")
    if source is None:
        raise RuntimeError(str(problems[0]))
    protocol = compile_pages([source])[0].get("p")
    if protocol is None:
        raise RuntimeError("there is no protocol p")
    before = os.environ.get("PRSM_HOME")
    with TemporaryDirectory(prefix="prsm-benchmark-") as folder:
        os.environ["PRSM_HOME"] = str(Path(folder, "home"))
        try:
            Kept().put(protocol)
            pin = Pin(protocol=protocol.id, state="s0", since=time.time())
            yield folder, {"protocol": "p", **changes_to(pin, "a")}
        finally:
            if before is None:
                del os.environ["PRSM_HOME"]
            else:
                os.environ["PRSM_HOME"] = before
