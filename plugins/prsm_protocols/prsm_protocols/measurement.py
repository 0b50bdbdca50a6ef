"""Measurement: what agents under a protocol do, as records in files that no tool of theirs reads.

It is made from committed events, beside the run, and never slows or steers it. A record is a line
of JSON in `DAY/RUN.jsonl`; days older than the setting go as a run begins to be measured.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import Counter
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from prsm_core import ConfigError, EventSink
from prsm_core.kit import Key, model_of_keys, parse_choice, parse_text
from prsm_protocols.labels import STATE, is_under_protocol, page_of, pin_of
from prsm_protocols.places import measurements_folder
from prsm_protocols.tool_names import MEASURE, TRANSITION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prsm_core import Event, RunInfo

_ENDS = frozenset({"completed", "failed", "killed"})
_CHECK = "protocol-states"

DAYS = 30  # that measurements are kept


class Measurement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record: what an agent did, when, and where in its protocol it was.

    `kind` is one of: began, moved, refused, denied, sent, measured, turn, ended. `name` is of what
    it is about: the state that was come to, the tool that was denied, the agent that was written
    to, what was measured, how it ended. `value` is a number: seconds in the state that was left,
    what was measured, tokens of a turn. `data` is more of it; of a turn also its `cost_usd`, how
    full the `context` was, and with `detail: turn` the `counts` of the other kinds since the last.
    """

    at: float  # Unix seconds
    seq: int  # of the event in its session
    session: str
    run: str
    agent: str  # its id
    agent_name: str
    kind: str
    protocol: str = ""  # NAME@ and digits; the name alone before the agent's first call
    state: str = ""
    name: str = ""
    value: float | None = None
    data: Any = None


class _Agent:
    """What is known of an agent: from its events, and from who it was as the run went on."""

    def __init__(
        self, agent_id: str, name: str = "", labels: Mapping[str, str] | None = None
    ) -> None:
        self.id = agent_id
        self.name = name
        self.labels = labels or {}
        pin = pin_of(self.labels, agent_id)
        self.since = None if pin is None else pin.since
        self.calls: set[str] = set()  # open calls of state_transition
        self.counts: Counter[str] = Counter()

    @property
    def protocol(self) -> str:
        pin = pin_of(self.labels, self.id)
        return page_of(self.labels, self.id) if pin is None else pin.protocol

    @property
    def state(self) -> str:
        return self.labels[STATE] if pin_of(self.labels, self.id) is not None else ""

    def is_refused(self, data: Mapping[str, Any]) -> bool:
        """Note the end of a call; return whether it was a transition that failed."""
        call = str(data.get("call"))
        is_transition = call in self.calls
        self.calls.discard(call)
        return is_transition and data.get("status") == "failed"


class MeasurementSink(EventSink):
    """Writes the measurements of one run; `settings` are those of MeasurementSettings."""

    def __init__(self, run: RunInfo, settings: Any) -> None:
        self._run = run
        self._folder = Path(settings.path) if settings.path else None
        self._per_turn = settings.detail == "turn"
        self._days = settings.days or DAYS
        self._agents = {
            agent.agent_id: _Agent(agent.agent_id, agent.name, agent.labels) for agent in run.agents
        }
        self._is_swept = False

    async def write(self, batch: Sequence[Event]) -> None:
        """Write what the events tell; raises OSError where it cannot be written."""
        records = [
            record
            for event in batch
            for record in self._measured(event)
            if record.kind == "turn" or not self._per_turn
        ]
        if records:
            await asyncio.to_thread(self._append, records)

    def _measured(self, event: Event) -> Iterator[Measurement]:
        if event.agent is None:
            return
        agent = self._agents.setdefault(event.agent, _Agent(event.agent))
        was = (agent.protocol, agent.state)
        if event.type in {"agent_spawned", "agent_labels_changed"}:
            agent.labels = event.data.get("labels") or {}
            agent.name = str(event.data.get("name") or agent.name)
        # Only agents under a protocol make these calls, also one that nobody knows yet.
        is_own = event.type == "tool_call_started" and event.data.get("tool") in {
            TRANSITION,
            MEASURE,
        }
        if not is_under_protocol(agent.labels) and not is_own:
            return
        for kind, fields in _facts(event, agent, was):
            if kind != "turn":
                agent.counts[kind] += 1
            elif self._per_turn:
                fields["data"]["counts"] = dict(sorted(agent.counts.items()))
                agent.counts.clear()
            yield Measurement(
                at=event.ts,
                seq=event.seq or 0,
                session=event.session,
                run=self._run.run_id,
                agent=agent.id,
                agent_name=agent.name,
                kind=kind,
                protocol=agent.protocol,
                state=agent.state,
                **fields,
            )

    def _append(self, records: Sequence[Measurement]) -> None:
        folder = self._folder or measurements_folder()
        if not self._is_swept:
            self._is_swept = True
            sweep(folder, _day(records[0].at) - timedelta(days=self._days))
        lines: dict[date, bytes] = {}
        for record in records:
            line = msgspec.json.encode(record) + b"\n"
            lines[_day(record.at)] = lines.get(_day(record.at), b"") + line
        for day, data in lines.items():
            _append_to(folder / day.isoformat() / f"{self._run.run_id}.jsonl", data)


def sweep(folder: Path, before: date) -> None:
    """Remove the days before one; what is no day is left."""
    if not folder.is_dir():
        return
    for each in folder.iterdir():
        with suppress(ValueError):
            if date.fromisoformat(each.name) < before and not each.is_symlink():
                shutil.rmtree(each)


def _facts(
    event: Event, agent: _Agent, was: tuple[str, str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what an event tells: its kind, and the fields that only this kind has."""
    data = event.data
    match event.type:
        case "agent_spawned":
            yield "began", {"name": agent.protocol}
        case "agent_labels_changed" if was != (agent.protocol, agent.state):
            yield "moved", _move(event, agent, was[1])
        case "tool_call_started" if data.get("tool") == MEASURE:
            yield "measured", _value(data.get("arguments") or {})
        case "tool_call_started" if data.get("tool") == TRANSITION:
            agent.calls.add(str(data.get("call")))
        case "tool_call_finished" if agent.is_refused(data):
            yield "refused", {"data": {"why": data.get("error") or data.get("result")}}
        case "check_denied" if data.get("check") == _CHECK:
            yield "denied", {"name": str(data.get("tool"))}
        case "message_routed" if data.get("kind") == "peer":
            yield "sent", {"name": str(data.get("to"))}
        case "agent_state_changed" if data.get("to") in _ENDS:
            yield "ended", {"name": str(data.get("to"))}
        case "turn_finished":
            usage = data.get("usage") or {}
            more = {key: data.get(key) for key in ("stop_reason", "cost_usd", "context")}
            yield "turn", {"value": usage.get("total_tokens"), "data": more}


def _move(event: Event, agent: _Agent, left: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": agent.state, "data": {"from": left}}
    if left and agent.since is not None:
        fields["value"] = round(event.ts - agent.since, 3)
    agent.since = event.ts
    return fields


def _value(arguments: Mapping[str, Any]) -> dict[str, Any]:
    value = arguments.get("value")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    fields = {"name": str(arguments.get("name", "")), "data": arguments.get("data")}
    return {**fields, "value": value} if is_number else fields


def _day(at: float) -> date:
    return datetime.fromtimestamp(at, tz=UTC).date()


def _append_to(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "ab") as file:
        file.write(data)


def _days(where: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 3650:
        raise ConfigError(f"{where}: a number of days from 1 to 3650 is needed, not {value!r}")
    return value


MEASUREMENTS = model_of_keys(
    "MeasurementSettings",
    {
        "path": Key(
            parse_text,
            "The folder of the measurements; not set: `_measurements` among PRSM's state.",
            {"type": "string", "minLength": 1},
        ),
        "detail": Key(
            parse_choice("event", "turn"),
            "A record for each event as it happens, or one for each turn.",
            {"enum": ["event", "turn"]},
        ),
        "days": Key(
            _days,
            f"How long measurements are kept; {DAYS} if not set.",
            {"type": "integer", "minimum": 1, "maximum": 3650},
        ),
    },
)
"""The section `sinks.measurements`, checked."""
