"""How a vendor's program has ended, in words."""

from __future__ import annotations

from signal import Signals
from typing import TYPE_CHECKING, Self

from prsm_core.domain.record import Record
from prsm_core.kit.clocks import deadline
from prsm_core.kit.terminal import readable_tail

if TYPE_CHECKING:
    import re

    from prsm_core.interfaces.provider import Process, ProviderServices

EXIT_SECONDS = 5.0  # between the end of stdout and the end of the process
_SIGNALLED = 128


class Exit(Record, frozen=True):
    """How a process ended, as text; `code` is None if it closed its output and ran on."""

    code: int | None

    @classmethod
    async def of(cls, process: Process, services: ProviderServices) -> Self:
        """Wait for a program that has closed its output; end one that goes on for five seconds."""
        try:
            async with deadline(services, EXIT_SECONDS):
                return cls(await process.wait())
        except TimeoutError:
            process.kill()
            return cls(None)

    @property
    def was_killed(self) -> bool:
        """Whether the code stands for a signal."""
        return self.code is not None and self.code > _SIGNALLED

    def __str__(self) -> str:
        if self.code is None:
            return "it closed its output and went on running"
        if not self.was_killed:
            return f"exit code {self.code}"
        number = self.code - _SIGNALLED
        name = Signals(number).name if number in set(Signals) else "unknown"
        memory = " (out of memory?)" if name == "SIGKILL" else ""
        return f"killed by signal {number}, {name}{memory}"


class Ending(Record, frozen=True, kw_only=True):
    """The end of a program: `why` in one line, and `tail`, the last telling lines of its stderr."""

    why: str
    tail: str = ""

    @classmethod
    def of(
        cls, why: str, process: Process, *, bad_lines: int = 0, noise: re.Pattern[str] | None = None
    ) -> Self:
        """Return an end with what the program's stderr says of it.

        Args:
            why: How it ended, or what it was ended for.
            process: The program.
            bad_lines: How many lines of its output were not understood.
            noise: What its stderr holds that tells nothing; see `readable_tail`.
        """
        if bad_lines:
            why = f"{why}; {bad_lines} of its lines were not understood"
        tail = readable_tail(process.stderr_tail, noise)
        cause = f": {tail.splitlines()[-1]}" if tail else ""
        return cls(why=f"{why}{cause}", tail=tail)
