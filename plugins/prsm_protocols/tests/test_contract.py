"""The provider `program` passes the contract of programs, by a client that asks with aism."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, ClassVar

from prsm_protocols.program.provider import build
from prsm_testing import ProgramHost, ProgramProviderContract

from plugins.prsm_protocols.tests.acting import ProtocolHost
from plugins.prsm_protocols.tests.test_clients import CLIENTS, write_pages

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from prsm_core import Provider, ProviderServices


class HeldHost(ProgramHost, ProtocolHost):
    """A ProtocolHost that knows what it has answered."""


class TestProgram(ProgramProviderContract):
    """Requests have the ids that a program chooses, and each start of one asks where it is."""

    settings: ClassVar[Mapping[str, Any]] = {
        "command": [sys.executable, str(CLIENTS / "agent.py")],
        "box": False,
        "restarts": 0,
    }
    prefix: ClassVar[str] = ""

    def build(self, settings: Mapping[str, Any], services: ProviderServices) -> Provider:
        return build(settings, services)

    def host(self) -> ProgramHost:
        return HeldHost()

    def request(self, folder: Path) -> dict[str, Any]:
        if not (folder / "work" / ".prism").exists():
            write_pages(folder / "work")
        return {}

    def acts(self, host: ProgramHost) -> Sequence[tuple[Any, str, Mapping[str, Any]]]:
        """Return the moves, and the end: an engine goes on with no turn that came to one."""
        assert isinstance(host, HeldHost)
        moves: list[tuple[Any, str, Mapping[str, Any]]] = [
            ((source, to), "state_transition", {}) for source, to in host.moves
        ]
        return [*moves, *(("end", "task_complete", {"summary": done}) for done in host.done[:1])]
