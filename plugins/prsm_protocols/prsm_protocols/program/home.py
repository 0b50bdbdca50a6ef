"""An agent's own folder: its home, what it is given there, and what is noted of its turns.

home/  HOME: CLAUDE.md and AGENTS.md, where programs look for them; it may write there
run/   aism, and the socket at which that asks; it may not write there
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from prsm_core import ProviderNotAvailableError
from prsm_core.kit import make_private, write_private
from prsm_protocols import aism
from prsm_protocols.program.words import GUIDE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Where programs that are agents look for what they have to know: Claude, Codex, Gemini, any other.
_GUIDES = (".claude/CLAUDE.md", ".codex/AGENTS.md", ".gemini/GEMINI.md", "CLAUDE.md", "AGENTS.md")
LONGEST = 100  # bytes of an address, which holds 107, and 103 on some systems


class _Kept(msgspec.Struct):
    task: str | None = None
    version: int = 0  # of what is told of the agent's state: it only grows


class Home:
    """Owns the folder of one agent."""

    def __init__(self, state_dir: Path, agent_id: str, redact: Callable[[Any], Any]) -> None:
        self.folder = state_dir / "agents" / agent_id
        self.home = self.folder / "home"
        self.run = self.folder / "run"
        self.socket = self.run / "bridge.sock"
        self._notes = self.folder / "notes.json"
        self._redact = redact
        self._kept = _Kept()

    def furnish(self) -> None:
        """Make the folder as a program needs it."""
        make_private(self.home)
        make_private(self.run)
        write_private({self.home / name: GUIDE for name in _GUIDES})
        program = self.run / "aism"
        write_private({program: Path(aism.__file__).read_text(encoding="utf-8")})
        program.chmod(0o700)

    @contextmanager
    def short_run(self) -> Iterator[str]:
        """Give a path of `run/` that leaves room in a socket's address, for as long as it is open.

        Clients in any language connect by it, and few know what to do with a longer one.
        """
        if len(os.fsencode(self.socket)) <= LONGEST:
            yield str(self.run)
            return
        with tempfile.TemporaryDirectory(prefix="prsm-") as folder:
            link = Path(folder) / "run"
            link.symlink_to(self.run)
            yield str(link)

    @property
    def task(self) -> str:
        """What the turn was begun with."""
        return self._kept.task or ""

    def read(self) -> None:
        """Take up what was noted; raise ProviderNotAvailableError where it is lost."""
        try:
            self._kept = msgspec.json.decode(self._notes.read_bytes(), type=_Kept)
        except (OSError, msgspec.DecodeError) as error:
            raise ProviderNotAvailableError(
                f"program: the notes of this agent cannot be read: {error}",
                hint="start the task as another run",
                code="resume_failed",
            ) from error

    def begin(self, task: str) -> None:
        """Note what a turn begins with."""
        self._kept.task = task
        self._write()

    def count(self) -> int:
        """Return a number that is higher than any before; it is on disk when this returns."""
        self._kept.version += 1
        self._write()
        return self._kept.version

    def _write(self) -> None:
        make_private(self.folder)
        beside = self._notes.with_suffix(".new")
        told = msgspec.json.encode(self._redact(msgspec.to_builtins(self._kept)))
        with beside.open("wb") as file:
            file.write(told)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._notes)
