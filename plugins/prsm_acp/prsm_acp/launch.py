"""How the processes of one agent and of its MCP servers are started."""

from __future__ import annotations

import asyncio
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from prsm_core import Notice
from prsm_core.kit import Exit, make_private, one_line, shown_to_clients, write_private

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core import McpServer

_WATCH = Path(__file__).with_name("watch_server.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What a process is started with.

    Attributes:
        argv: The program and its arguments.
        cwd: Its working directory.
        env: Variables added to the allow-listed environment.
        files: Texts that are written, for the owner alone, before the start; by absolute path.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[Path, str] = field(default_factory=dict)


async def prepare(launch: Launch, home: Path) -> None:
    """Make the agent's private folder and write the files of its launch."""
    await asyncio.to_thread(make_private, home)
    await asyncio.to_thread(write_private, launch.files)


async def discard(home: Path) -> None:
    """Remove an agent's private folder."""
    await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)


class WatchedServers:
    """An agent's MCP servers, run under `watch_server`: the protocol does not tell of lost ones."""

    def __init__(self, servers: Mapping[str, McpServer], home: Path) -> None:
        self._folder = home / "servers"
        started = [name for name, server in servers.items() if server.url is None]
        self._notes = {name: self._folder / str(number) for number, name in enumerate(started)}
        self.servers = {name: self._watched(name, server) for name, server in servers.items()}

    @property
    def shown(self) -> Mapping[str, str]:
        """What their box must show in addition, as `Box.mounts`."""
        return shown_to_clients(_WATCH, None) if self._notes else {}

    async def prepare(self) -> None:
        """Make the folder for the notes."""
        if self._notes:
            await asyncio.to_thread(make_private, self._folder)

    async def lost(self) -> list[Notice]:
        """Return a warning for each server that has ended by itself, once."""
        return await asyncio.to_thread(self._lost) if self._notes else []

    def _lost(self) -> list[Notice]:
        noted = {name: note.read_text() for name, note in self._notes.items() if note.exists()}
        codes = {name: int(text) for name, text in noted.items() if text}
        notices = []
        for name, code in codes.items():
            del self._notes[name]
            text = f"The MCP server {name} is not there: it ended by itself, {Exit(code)}"
            notices.append(Notice("warning", one_line(text)))
        return notices

    def _watched(self, name: str, server: McpServer) -> McpServer:
        if server.command is None:
            return server
        words = ("-I", "-S", str(_WATCH), str(self._notes[name]), server.command, *server.args)
        return structs.replace(server, command=sys.executable, args=words)
