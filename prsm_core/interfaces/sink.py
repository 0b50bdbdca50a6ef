"""Event sinks: they get committed events in batches and can never slow the engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from prsm_core.domain.record import Record
from prsm_core.interfaces.records import Registration

if TYPE_CHECKING:
    from prsm_core.domain.events import Event
    from prsm_core.interfaces.tool import PeerNow


class RunInfo(Record, frozen=True, kw_only=True):
    """The run a sink is opened for.

    Attributes:
        agents: Those that the run goes on with: of a resume all that had not ended, of a follow-up
            its master. No event of this run tells who they are.
    """

    run_id: str
    session: str
    task: str
    workspace: str
    agents: tuple[PeerNow, ...] = ()


class EventSink(ABC):
    """Receives the committed events of one run."""

    @abstractmethod
    async def write(self, batch: Sequence[Event]) -> None:
        """Take a batch in order of seq; an exception counts the batch as dropped."""

    async def aclose(self) -> None:
        """Flush and close."""
        return


SinkFactory = Callable[[RunInfo, Any], EventSink]  # a mapping, or an instance of `settings`


class EventSinkSpec(Registration, frozen=True, kw_only=True):
    """Registers a sink; `kinds` limits the event types, None means all.

    `settings` is a msgspec.Struct or its import string: what `sinks.NAME` of the configuration may
    hold. The factory gets an instance of it, or without one what was written.

    `unseen` says that no agent may see what the sink writes, whoever allows it. It names the folder
    below PRSM's state that the sink writes to, unless its setting `path` names another.

    `reads_labels` are the person's labels that it looks for: one that nothing reads is told as a
    run begins.
    """

    word = "event sink"

    factory: str | SinkFactory
    kinds: frozenset[str] | None = None
    maxsize: int = 1000
    overflow: str = "drop_oldest"
    settings: str | type[Any] | None = None
    unseen: str | None = None
    reads_labels: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Check the name and the overflow rule."""
        super().__post_init__()
        if self.overflow not in {"drop_oldest", "drop_newest"}:
            raise ValueError(f"event sink {self.name}: overflow {self.overflow!r} is unknown")
