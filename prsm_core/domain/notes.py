"""What an engine knows of a life that no other row tells: it rides along in the agent's steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import field
from msgspec.structs import asdict

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping


class Ending(Record, frozen=True, gc=False, kw_only=True):
    """That an agent is to end, with all below it, and why: told before the first of them ends."""

    state: str  # failed | killed
    reason: str
    kind: str  # of the error in its result


class ModelChoice(Record, frozen=True, gc=False, kw_only=True):
    """A model of a provider, and how hard it is to think; None: as the provider has it."""

    provider: str
    model: str
    reasoning_effort: str | None = None

    @property
    def name(self) -> str:
        """The model as grants name it, "provider/model"."""
        return f"{self.provider}/{self.model}"


class WentOn(Record, frozen=True, gc=False, kw_only=True):
    """How far a turn was when it went on last, in `responses` and `messages`.

    The vendor's thread has what was before, or is told.
    """

    turn: str
    responses: int = 0
    messages: int = 0


class Notes(Record, frozen=True, gc=False, kw_only=True):
    """What an engine knows of a life that no other row tells, and the next engine must know.

    They ride in steps that are written anyway, as of those steps.
    """

    began_at: float | None = None  # Unix seconds; None: when the agent was spawned
    reasoning_s: float = 0.0  # seconds, to within one
    failures: int = 0  # turns in a row that failed
    tried: tuple[str, ...] = ()  # models that have failed for good, the first one first
    settled: str | None = None  # the turn whose failure these count
    refusals: int = 0  # how often a gate has sent the agent back
    asked_again: int = 0  # how often, in a row, for an answer that was none
    repeated: tuple[str, ...] = ()  # questions, by correlation id, that it was shown once more
    reminded: tuple[str, ...] = ()  # … because a knot hung on them
    reminders: tuple[str, ...] = ()  # … which it is still to be shown
    progress: Mapping[str, Any] | None = None  # the last that it has reported
    reports: int = 0  # how often it has
    heard: Mapping[str, int] = field(default_factory=dict)  # by child, how many it was told
    ending: Ending | None = None  # it is about to end
    chosen: ModelChoice | None = None  # by a person, for its next turn on
    left: ModelChoice | None = None  # for the chosen one, with which no turn has ended well yet
    went_on: WentOn | None = None  # of the newest turn that did

    def to_dict(self) -> dict[str, Any]:
        """Return what is not as usual, as JSON values."""
        told = {name: value for name, value in asdict(self).items() if value != _USUAL[name]}
        told.update({name: asdict(told[name]) for name in told.keys() & _RECORDS.keys()})
        names = told.keys() & _LISTS
        return {**told, **{name: list(told[name]) for name in names}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Notes:
        """Build notes from the values of `to_dict`."""
        given = {**data, **{name: tuple(data[name]) for name in data.keys() & _LISTS}}
        return cls(**{name: _built(name, value) for name, value in given.items()})


def _built(name: str, value: Any) -> Any:
    kind = _RECORDS.get(name)
    return value if kind is None or value is None else kind(**value)


_RECORDS: Mapping[str, type[Record]] = {
    "ending": Ending,
    "chosen": ModelChoice,
    "left": ModelChoice,
    "went_on": WentOn,
}
_USUAL = asdict(Notes())
_LISTS = frozenset(name for name, value in _USUAL.items() if value == ())
NO_NOTES = Notes()
