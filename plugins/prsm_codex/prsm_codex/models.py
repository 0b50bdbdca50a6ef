"""The models Codex lists: asked for live, else read from the list that it keeps for its user."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from prsm_codex.rpc import RpcError
from prsm_core import (
    ModelInfo,
    ProviderNotAvailableError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from prsm_codex.rpc import Rpc

CACHE = "models_cache.json"  # in the user's CODEX_HOME; not every login makes one
_FRESH_SECONDS = 24 * 3600.0
_MAX_PAGES = 20


async def listed(rpc: Rpc) -> tuple[ModelInfo, ...]:
    """Return what a running app-server lists.

    Raises ProviderNotAvailableError when it lists nothing.
    """
    models: list[ModelInfo] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        try:
            page = await rpc.request("model/list", {"cursor": cursor, "includeHidden": True})
        except RpcError as error:
            raise ProviderNotAvailableError(f"codex lists no models: {error.message}") from error
        models += [_listed(entry) for entry in page.get("data") or ()]
        cursor = page.get("nextCursor")
        if not cursor:
            break
    return tuple(models)


def _listed(entry: Mapping[str, Any]) -> ModelInfo:
    efforts = entry.get("supportedReasoningEfforts") or ()
    return ModelInfo(
        model_id=str(entry.get("model") or entry.get("id")),
        display_name=entry.get("displayName"),
        reasoning_efforts=tuple(str(effort.get("reasoningEffort")) for effort in efforts),
        hidden=bool(entry.get("hidden")),
    )


def cached(path: Path, now: float) -> tuple[ModelInfo, ...]:
    """Return the visible models of a cache, none where there is none that can be read.

    `now` is Unix seconds. Those of a list older than a day carry its date in their names.
    """
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        entries = [dict(entry) for entry in kept["models"] if entry.get("visibility") == "list"]
        fetched = datetime.fromisoformat(str(kept["fetched_at"]))
        return tuple(_cached(entry, _age_mark(fetched, now)) for entry in entries)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ()


def _age_mark(fetched: datetime, now: float) -> str:
    fetched = fetched if fetched.tzinfo else fetched.replace(tzinfo=UTC)
    if now - fetched.timestamp() <= _FRESH_SECONDS:
        return ""
    return f" (as of {fetched:%Y-%m-%d})"


def _cached(entry: Mapping[str, Any], mark: str) -> ModelInfo:
    window = entry.get("context_window")
    levels = entry.get("supported_reasoning_levels") or ()
    slug = str(entry["slug"])
    return ModelInfo(
        model_id=slug,
        display_name=f"{entry.get('display_name') or slug}{mark}",
        context_window=window if type(window) is int and window > 0 else None,
        reasoning_efforts=tuple(str(level["effort"]) for level in levels),
    )
