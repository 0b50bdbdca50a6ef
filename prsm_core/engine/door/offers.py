"""Providers, models and sessions, as they are told to people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from prsm_core.catalog.selection import build_model_registry
from prsm_core.domain.record import Record
from prsm_core.door import ModelRow, ProviderReport, SessionSummary
from prsm_core.engine.control.session_lock import Owner, find_owner
from prsm_core.errors import ControlError
from prsm_core.kit.quotation import without_references

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from prsm_core.config import Settings
    from prsm_core.domain.models import ModelCapability, ModelInfo
    from prsm_core.domain.sessions import RunNow
    from prsm_core.engine.providers.listings import ProviderReport as Surveyed
    from prsm_core.interfaces.store import AgentRow, SessionInfo


def report_provider(name: str, surveyed: Surveyed) -> ProviderReport:
    """Return what is known of a provider."""
    status, can = surveyed.status, surveyed.capabilities
    return ProviderReport(
        name=name,
        available=status.available,
        version=status.version,
        tested=status.tested,
        logged_in=status.logged_in,
        enforcement=None if can is None else can.enforcement,
        resume=None if can is None else can.resume,
        reason=status.reason,
        hint=status.hint,
        gaps=tuple(status.gaps),
    )


def known_models(
    settings: Settings, listed: Mapping[str, Sequence[ModelInfo]], provider: str | None = None
) -> list[ModelRow]:
    """Return every model, of one provider or all, by provider and id.

    `listed` is what providers list.
    """
    rows: dict[tuple[str, str], dict[str, Any]] = {}

    def seen(owner: str, model: str, source: str) -> dict[str, Any]:
        blank = {"provider": owner, "model": model, "aliases": [], "known_from": []}
        row = rows.setdefault((owner, model), blank)
        if source not in row["known_from"]:
            row["known_from"].append(source)
        return row

    for alias, target in settings.models.items():
        seen(target.provider, target.model_id, "alias")["aliases"].append(alias)
    for known in build_model_registry(settings):
        seen(known.provider, known.model_id, "registry").update(_of_registry(known))
    for name, models in listed.items():
        for info in models:
            row = seen(name, info.model_id, "provider")
            told = of_provider(info)
            window = info.context_window or row.get("context_window")
            row.update({**told, "context_window": window})
    return [
        msgspec.convert(rows[key], ModelRow)
        for key in sorted(rows)
        if provider is None or key[0] == provider
    ]


def _of_registry(known: ModelCapability) -> dict[str, Any]:
    return {
        "tier": known.tier.value,
        "cost_factor": known.cost_factor,
        "speed_factor": known.speed_factor,
        "affinities": dict(known.affinities),
        "context_window": known.max_context,
    }


def of_provider(info: ModelInfo) -> dict[str, Any]:
    """Return what a provider tells of a model, as JSON values."""
    return {
        "display_name": info.display_name,
        "context_window": info.context_window,
        "reasoning_efforts": list(info.reasoning_efforts),
        "hidden": info.hidden,
    }


def session_rows(found: Sequence[SessionInfo], state_dir: Path | None) -> Sequence[SessionSummary]:
    """Return sessions as Sessions.list tells them; reads their locks, if any are known."""
    return [_row(info, state_dir) for info in found]


def _row(info: SessionInfo, state_dir: Path | None) -> SessionSummary:
    """Return a session as it is listed; one that nobody runs any more was interrupted."""
    status, pid = info.status, None
    if state_dir is not None:
        owning = Owning.look(state_dir, info.session_id)
        status, pid = owning.status(info.status, info.engine), owning.pid
    return SessionSummary(
        session=info.session_id,
        name=info.name,
        run=info.run_id,
        status=status,
        task=without_references(info.task),
        workspace=info.workspace,
        started_at=info.started_at,
        last_seq=info.last_seq,
        pid=pid,
        origin=info.origin,
    )


def lost_agents(
    rows: Iterable[AgentRow], runs: Iterable[RunNow], owning: Owning
) -> Collection[str]:
    """Return the agents of runs whose engine died, though somebody may own the session."""
    dead = {run.run_id for run in runs if owning.status(run.status, run.engine) == "interrupted"}
    return {row.descriptor.agent_id for row in rows if row.descriptor.run_id in dead}


class Owning(Record, frozen=True):
    """Who owns a session: a process, one that does not say who it is, or nobody."""

    owner: Owner | None
    is_owned: bool

    @classmethod
    def look(cls, state_dir: Path, session: str) -> Owning:
        """Look at the session's lock."""
        try:
            owner = find_owner(state_dir, session)
        except ControlError:  # it is held by one that does not say who it is
            return cls(None, True)
        return cls(owner, owner is not None)

    @property
    def pid(self) -> int | None:
        """The process, as far as it says."""
        return None if self.owner is None else self.owner.process.pid

    def status(self, status: str | None, engine: tuple[str, int, Any] | None) -> str | None:
        """Return the status of a run whose engine is known; one whose engine died was interrupted.

        It died if nobody owns the session, or another process does.
        """
        if status != "running":
            return status
        if self.owner is None or engine is None:
            return status if self.is_owned else "interrupted"
        process = self.owner.process
        is_its = engine == (process.boot_id, process.pid, process.start_time)
        return status if is_its else "interrupted"
