"""Permission checks that plugins add to the broker's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from prsm_core.domain.permissions import PermissionContext, PermissionRequest, Verdict
from prsm_core.interfaces.records import Registration

Decision = Awaitable[Verdict | None] | Verdict | None
PermissionCheck = Callable[[PermissionRequest, PermissionContext], Decision]
CheckWithSettings = Callable[[PermissionRequest, PermissionContext, Any], Decision]
IsSolo = Callable[[Mapping[str, str], str], Awaitable[bool] | bool]


class PermissionCheckSpec(Registration, frozen=True, kw_only=True):
    """Registers a check; None means no opinion. A check that raises or times out denies.

    `check`, maybe an import string, returns its verdict or an awaitable of it, which runs in a task
    of its own: a plain function costs far less. Checks run in order of `priority` (lower first),
    then name; the strongest verdict wins. In BYPASS only checks with `in_bypass` run.

    With `orchestration` it is also asked about each call of PRSM's own tools, in every mode: the
    request's `tool` is `spawn_child` or the like, its `arguments` are the model's, and it has no
    `command`. None and Allow let the call go on.

    `labels` are the labels it looks for; a person's label that nothing reads is told as a run
    begins. With a `level` (see `ProviderCapabilities.enforcement`) it sees everything only if the
    provider reaches so far; for a labelled agent whose provider does not, that is told before its
    first turn.

    `solo`, maybe an import string, decides as a run with any of these `labels` begins in a trusted
    workspace: `solo(labels, workspace)` says whether its master works itself, as with `--solo`. It
    cannot overrule settings that say so.

    `settings` is a msgspec.Struct or its import string: what `checks.NAME` of the configuration may
    hold, and the check's third argument.
    """

    word = "permission check"

    priority: int
    check: str | PermissionCheck | CheckWithSettings
    in_bypass: bool = False
    orchestration: bool = False
    timeout: float = 5.0
    level: str | None = None
    labels: frozenset[str] = frozenset()
    settings: str | type[Any] | None = None
    solo: str | IsSolo | None = None
