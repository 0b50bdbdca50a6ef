"""Try MCP servers before a vendor gets them: do they begin in time, and what do they offer?

A dead or hanging server ends one vendor's program, hangs another, and is silently skipped by a
third. So no vendor gets it, and it is reported. A server that began is not tried again; one that
did not is, after a while, as a person may have mended it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from prsm_core.domain.record import Record
from prsm_core.errors import ConfigError, ProcessError, ProviderNotAvailableError
from prsm_core.kit.clocks import first_of
from prsm_core.kit.terminal import one_line
from prsm_core.version import __version__

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping

    from prsm_core.domain.boxes import Box
    from prsm_core.domain.tools import McpServer
    from prsm_core.engine.processes.child import ChildProcess
    from prsm_core.interfaces.clock import Clock

    Start = Callable[..., Awaitable[ChildProcess]]

_REACH = Path(__file__).parents[1] / "processes" / "mcp_reach.py"
_AGAIN_SECONDS = 300.0
_END_SECONDS = 2.0
_TOLD = 300  # characters of what a server says of itself
_BEGIN: Mapping[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "prsm", "version": __version__},
    },
}
_BEGUN: Mapping[str, Any] = {"jsonrpc": "2.0", "method": "notifications/initialized"}
_LIST: Mapping[str, Any] = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}


class Trial(Record, frozen=True, kw_only=True):
    """Why a server cannot be used, or a blank; and what is odd about it."""

    problem: str = ""
    notes: tuple[str, ...] = ()


class McpTrials(Struct, eq=False):
    """Owns what is known of an engine's MCP servers; `tell` warns of an agent, by its id."""

    start: Start
    clock: Clock
    tell: Callable[[str, str], None]
    _trials: dict[str, tuple[Trial, float]] = field(default_factory=dict)
    _locks: defaultdict[str, asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock)
    )

    async def usable(
        self,
        servers: Mapping[str, McpServer],
        *,
        agent_id: str,
        cwd: str,
        box: Box | None,
        refusal: Callable[[str], str],
    ) -> dict[str, McpServer]:
        """Return the usable servers and report the others; raise ConfigError for a required one."""
        async with asyncio.TaskGroup() as group:
            tasks = {
                name: group.create_task(self._try(name, server, agent_id, cwd, box, refusal(name)))
                for name, server in servers.items()
            }
        problems = {name: task.result() for name, task in tasks.items()}
        required = [name for name in servers if problems[name] and servers[name].required]
        if required:
            name = required[0]
            raise ConfigError(
                f"the MCP server {name} is required and cannot be used: {problems[name]}",
                hint=f"Mend it, or set mcp_servers.{name}.required to false.",
                code="mcp_server",
            )
        return {name: server for name, server in servers.items() if not problems[name]}

    async def _try(
        self, name: str, server: McpServer, agent_id: str, cwd: str, box: Box | None, refusal: str
    ) -> str:
        if refusal:
            if not server.required:
                self.tell(agent_id, f"the MCP server {name} is left out: {refusal}")
            return refusal
        key = repr((name, server, cwd, box))
        async with self._locks[key]:
            trial, until = self._trials.get(key, (None, 0.0))
            if trial is None or (trial.problem and self.clock.now() >= until):
                trial = await self._made(name, server, cwd, box)
                self._trials[key] = (trial, self.clock.now() + _AGAIN_SECONDS)
                if trial.problem and not server.required:
                    self.tell(agent_id, f"the MCP server {name} is left out: {trial.problem}")
                for note in trial.notes:
                    self.tell(agent_id, f"the MCP server {name}: {note}")
        return trial.problem

    async def _made(self, name: str, server: McpServer, cwd: str, box: Box | None) -> Trial:
        by_url = server.url is not None
        if by_url and box is not None and not box.network:
            return Trial(problem="it is reached by the network, which its box does not have")
        argv = (
            (sys.executable, "-I", "-S", str(_REACH))
            if by_url
            else (server.command or "", *server.args)
        )
        try:
            process = await self.start(
                argv,
                name=f"MCP server {name}",
                cwd=cwd,
                env=None if by_url else server.env,
                box=None if by_url else box,
            )
        except (ProcessError, ProviderNotAvailableError) as error:
            return Trial(problem=error.message)
        return await self._watched(process, server)

    async def _watched(self, process: ChildProcess, server: McpServer) -> Trial:
        found: list[Trial] = []

        async def talk() -> None:
            ask = _reach if server.url is not None else _greet
            found.append(await ask(process, server))

        try:
            in_time = await first_of(self.clock, server.start_seconds, talk)
        except ProcessError as error:
            return Trial(problem=error.message)
        finally:
            process.close_stdin()
            await process.stop(_END_SECONDS)
        if not in_time:
            return Trial(problem=f"it did not begin within {server.start_seconds:g} s")
        return found[0]


async def _reach(process: ChildProcess, server: McpServer) -> Trial:
    told = {"url": server.url, "headers": dict(server.headers), "request": _BEGIN}
    await process.write(json.dumps(told).encode())
    process.close_stdin()
    async for line in process.lines():
        return Trial(problem=_shown(line.decode(errors="replace").strip()))
    return Trial(problem=_ended(process, await process.wait()))


async def _greet(process: ChildProcess, server: McpServer) -> Trial:
    lines = process.lines()
    try:
        greeting = await _ask(process, lines, _BEGIN)
        if isinstance(greeting, str):
            return Trial(problem=greeting)
        await _send(process, _BEGUN)
        if "tools" not in _mapping(greeting.get("capabilities")):
            return Trial(notes=("it offers no tools",))
        listed = await _ask(process, lines, _LIST)
    except ProcessError:
        return Trial(problem=_ended(process, await process.wait()))
    if isinstance(listed, str):
        return Trial(problem=f"its tools cannot be listed: {listed}")
    return judge_tools(listed.get("tools"))


async def _ask(
    process: ChildProcess, lines: AsyncIterator[bytes], request: Mapping[str, Any]
) -> Mapping[str, Any] | str:
    await _send(process, request)
    async for line in lines:
        answer = _read(line)
        if answer.get("id") != request["id"] or "method" in answer:
            continue
        if isinstance(result := answer.get("result"), dict):
            return result
        return _shown(str(_mapping(answer.get("error")).get("message", "it answers no result")))
    return _ended(process, await process.wait())


async def _send(process: ChildProcess, message: Mapping[str, Any]) -> None:
    await process.write(json.dumps(message).encode() + b"\n")


def _read(line: bytes) -> Mapping[str, Any]:
    try:
        return _mapping(json.loads(line))
    except (ValueError, RecursionError):
        return {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _ended(process: ChildProcess, code: int) -> str:
    last = process.stderr_tail.strip().rpartition("\n")[2]
    return _shown(f"it ended with exit code {code}{f': {last}' if last else ''}")


def _shown(text: str) -> str:
    return one_line(text)[:_TOLD]


def judge_tools(tools: object) -> Trial:
    """Return what is wrong with a server's tools: one forbidden tool makes vendors refuse all."""
    if not isinstance(tools, list):
        return Trial(problem="its list of tools is none")
    broken = [problem for tool in tools if (problem := _broken(tool))]
    if broken:
        return Trial(problem=f"vendors would refuse all of its tools, because {broken[0]}")
    return Trial(notes=tuple(_odd(tools)))


def _broken(tool: object) -> str:
    found = _mapping(tool)
    name = found.get("name")
    if not isinstance(name, str) or not name:
        return "one of them has no name"
    if not isinstance(found.get("inputSchema"), dict):
        return f"the tool {_shown(name)!r} has no inputSchema"
    if not isinstance(found.get("description", ""), str):
        return f"the description of the tool {_shown(name)!r} is no text"
    return ""


def _odd(tools: list[dict[str, Any]]) -> Iterator[str]:
    seen: set[str] = set()
    for tool in tools:
        name = _shown(tool["name"])
        if tool["inputSchema"].get("type") != "object":
            yield f"some vendors drop it, because the inputSchema of {name!r} is of no type object"
        if tool["name"] in seen:
            yield f"it offers {name!r} twice"
        seen.add(tool["name"])
