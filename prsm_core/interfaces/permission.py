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

    `check` may be an import string. It returns its verdict, or an awaitable of it, which runs in a
    task of its own: one that has nothing to wait for costs far less as a plain function. Checks run
    in order of `priority` (lower first), then name; the strongest verdict wins. In BYPASS only
    checks with `in_bypass` run.

    With `orchestration` it is asked about each call of PRSM's own tools as well, in every mode:
    the request's `tool` is `spawn_child` or another name of the table, its `arguments` are what
    the model gave, and it has no `command`. None and Allow let the call go on.

    `labels` are the names of labels that it looks for: one of a person's that nothing reads is told
    as a run begins. With a `level` (see `ProviderCapabilities.enforcement`) it sees everything only
    where a provider reaches so far. Of an agent that has any of these labels, and whose provider
    does not, that is told before the agent's first turn.

    `solo` may be an import string, too: as a run begins in a trusted workspace whose labels have
    any of these `labels`, `solo(labels, workspace)` says whether its master works itself, as with
    `--solo`. The settings may say so as well; it cannot say no.

    `settings` is a msgspec.Struct or an import string of one: what `checks.NAME` of the
    configuration may hold. The check gets an instance of it as its third argument.
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
