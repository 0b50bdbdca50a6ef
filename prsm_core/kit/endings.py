"""How a vendor's program has ended, in words."""

from __future__ import annotations

from signal import Signals
from typing import TYPE_CHECKING

from prsm_core.domain.record import Record
from prsm_core.kit.deadlines import deadline
from prsm_core.kit.terminal import readable_tail

if TYPE_CHECKING:
    import re

    from prsm_core.interfaces.provider import Process, ProviderServices

EXIT_SECONDS = 5.0  # between the end of stdout and the end of the process
_SIGNALLED = 128


async def wait_for_exit(process: Process, services: ProviderServices) -> int | None:
    """Return the exit code of a program that has closed its output; end one that goes on.

    None of one that had to be ended: it went on running for five seconds.
    """
    try:
        async with deadline(services, EXIT_SECONDS):
            return await process.wait()
    except TimeoutError:
        process.kill()
        return None


def was_killed(code: int) -> bool:
    """Return whether an exit code stands for a signal."""
    return code > _SIGNALLED


def ended_how(code: int | None) -> str:
    """Return how a program ended, from what `wait_for_exit` gave."""
    if code is None:
        return "it closed its output and went on running"
    if not was_killed(code):
        return f"exit code {code}"
    number = code - _SIGNALLED
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
    ) -> Ending:
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
