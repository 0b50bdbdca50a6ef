"""One side of a row of `peers`: a program in front of a scripted model, and what its run took."""

from __future__ import annotations

import contextlib
import resource
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.first import PRSM
from benchmarks.scripted import LEAD
from prsm_core.engine.processes.table import find_family

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.scripted import Served

# Between two looks at the memory of a family.
SAMPLE_S = 0.2
# A run that takes longer hangs.
RUN_S = 300.0
# Of what a program says last, which are told where it fails.
LINES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one run took: CPU and times in ms, memory in MB, and what the model was sent."""

    cpu: float
    wall: float
    first: float
    peak: float
    requests: float
    lead: float
    kilobytes: float
    late: float


class CannotRunError(Exception):
    """A side of a row that ends with an error; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A program in front of its own model.

    weigh: Whether the memory of its processes is looked at, which costs time.
    """

    argv: Sequence[str]
    folder: Path
    env: Mapping[str, str]
    served: Served
    weigh: bool = False

    def run(self) -> Cost:
        """Run it once."""
        self.served.begin()
        before, began = _children_cpu(), time.perf_counter()
        peak = self._run()
        wall, model = time.perf_counter() - began, self.served.model
        cpu = _children_cpu() - before
        if model.first_at is None or model.failures:
            raise CannotRunError(f"{self._name}: {model.failures or 'no request came'}")
        return Cost(
            cpu=1000 * cpu,
            wall=1000 * wall,
            first=1000 * (model.first_at - began),
            peak=peak / 1e6,
            requests=sum(model.requests.values()),
            lead=model.requests.get(LEAD, 0),
            kilobytes=self.served.bytes_received / 1000,
            late=model.late,
        )

    @property
    def _name(self) -> str:
        return (
            "prsm run" if PRSM in self.argv else " ".join([Path(self.argv[0]).name, self.argv[1]])
        )

    def _run(self) -> int:
        """Run the program; return the most bytes that its family had, 0 if it was not weighed."""
        with (
            subprocess.Popen(
                self.argv,
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            ) as process,
            _weighed(process.pid, self.weigh) as scale,
        ):
            try:
                _, errors = process.communicate(timeout=RUN_S)
            except subprocess.TimeoutExpired:
                process.terminate()
                raise CannotRunError(f"{self._name} has not ended after {RUN_S:.0f} s") from None
        if process.returncode != 0:
            last = " / ".join(errors.strip().splitlines()[-LINES:])
            raise CannotRunError(f"{self._name} ended with {process.returncode}: {last}")
        return scale.peak


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass(slots=True)
class _Scale:
    """Weighs a family of processes again and again, in a thread."""

    pid: int
    peak: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def weigh(self) -> None:
        while not self.ended.wait(SAMPLE_S):
            self.peak = max(self.peak, sum(_bytes(pid) for pid in find_family(self.pid)))


def _bytes(pid: int) -> int:
    """Return the memory of a process, with its share of pages that others have, too."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return 1024 * int(line.split()[1])
    return 0


@contextlib.contextmanager
def _weighed(pid: int, is_wanted: bool) -> Iterator[_Scale]:
    scale = _Scale(pid)
    if not is_wanted:
        yield scale
        return
    thread = threading.Thread(target=scale.weigh)
    thread.start()
    try:
        yield scale
    finally:
        scale.ended.set()
        thread.join()
