"""Boxes: what a process of an agent may use of the machine, and what it sees of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field
from msgspec.structs import replace

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping


class Box(Record, frozen=True, kw_only=True):
    """The limits of one process with all that it starts, and what it sees beside the system.

    In it are the system's programs, read-only, its working folder, which it may write, an empty
    /tmp and an empty home, and nothing else of the machine. A limit that the machine cannot hold is
    told before a run.

    Attributes:
        memory: Bytes, with files in /tmp and in its home; more is killed. None, as for the others:
            no limit.
        cpus: Processors that it may keep busy, such as 1.5.
        pids: Processes and threads at one time; no further one can be started.
        network: Whether it has the machine's network, rather than a loopback of its own.
        mounts: Files and folders of the machine by their path inside, read-only. Both are whole
            paths, and no link leads to the machine's.
        writable: Folders and files of the machine that it may write, at their own path.
    """

    memory: int | None = None
    cpus: float | None = None
    pids: int | None = None
    network: bool = False
    mounts: Mapping[str, str] = field(default_factory=dict)
    writable: tuple[str, ...] = ()

    def opened(self, *writable: str, shown: Mapping[str, str] | None = None) -> Box:
        """Return a box that may also write these places, and sees others, as in `mounts`.

        A provider adds so what its program needs, such as the folder of its settings.
        """
        return replace(
            self, writable=(*self.writable, *writable), mounts={**self.mounts, **(shown or {})}
        )

    @property
    def limits(self) -> dict[str, float]:
        """The limits that are wanted, by the name of their field."""
        wanted = {"memory": self.memory, "cpus": self.cpus, "pids": self.pids}
        return {name: value for name, value in wanted.items() if value is not None}
