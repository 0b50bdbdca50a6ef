"""What a plugin is, what it may contribute, and how its errors are worded."""

from __future__ import annotations

import traceback
from enum import StrEnum
from typing import TYPE_CHECKING

from prsm_core.domain.record import Record
from prsm_core.errors import PluginError
from prsm_core.executors import ExecutorSpec
from prsm_core.interfaces.files import WorkspaceFilesSpec
from prsm_core.interfaces.frontend import FrontendSpec
from prsm_core.interfaces.permission import PermissionCheckSpec
from prsm_core.interfaces.provider import ProviderSpec
from prsm_core.interfaces.scorer import ModelScorerSpec
from prsm_core.interfaces.sink import EventSinkSpec
from prsm_core.interfaces.tool import ToolContribution
from prsm_core.policies.port import CommandPolicySpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MORE_TIME = "give it more time, in seconds: PRSM_PLUGIN_TIMEOUT=60"
SWITCHED_OFF = "plugins are switched off: leave out --no-plugins"

Spec = (
    ProviderSpec
    | PermissionCheckSpec
    | ModelScorerSpec
    | EventSinkSpec
    | FrontendSpec
    | ToolContribution
    | WorkspaceFilesSpec
    | CommandPolicySpec
    | ExecutorSpec
)
Key = tuple[type, str]  # the kind of a record and its name

HOOKS: Mapping[str, type[Spec]] = {
    "prsm_providers": ProviderSpec,
    "prsm_permission_checks": PermissionCheckSpec,
    "prsm_command_policies": CommandPolicySpec,
    "prsm_model_scorers": ModelScorerSpec,
    "prsm_event_sinks": EventSinkSpec,
    "prsm_frontends": FrontendSpec,
    "prsm_tools": ToolContribution,
    "prsm_workspace_files": WorkspaceFilesSpec,
    "prsm_executors": ExecutorSpec,
}
WORDS: Mapping[type, str] = {kind: kind.word for kind in HOOKS.values()}


class PluginState(StrEnum):
    """What became of a plugin."""

    ACTIVE = "active"
    DISABLED = "disabled"
    BROKEN = "broken"
    SLOW = "slow"
    INCOMPATIBLE = "incompatible"


class PluginRecord(Record, frozen=True, kw_only=True):
    """One plugin as `prsm plugins` shows it; `error` says why it is not active."""

    name: str
    distribution: str
    version: str
    state: PluginState
    hooks: tuple[str, ...] = ()
    error: str | None = None
    # Permission checks or a command policy; None: it did not come far enough to say.
    brings_checks: bool | None = None

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"

    @property
    def is_quarantined(self) -> bool:
        """Whether something is wrong with it; one that was switched off is not wrong."""
        return self.state not in {PluginState.ACTIVE, PluginState.DISABLED}

    @property
    def cure(self) -> str:
        """What to do about one that is in quarantine."""
        leave_out = f"or leave it out: PRSM_DISABLED_PLUGINS={self.name}"
        if self.state is PluginState.SLOW:
            return f"{MORE_TIME}, {leave_out}"
        mend = "update" if self.state is PluginState.INCOMPATIBLE else "reinstall"
        return f"{mend} {self.distribution}, {leave_out}"

    @property
    def fault(self) -> str:
        """What is wrong with it, what that means for checks, and what a slow one needs."""
        is_slow = self.state is PluginState.SLOW
        return f"{self.error}{self.loss}" + (f"; {MORE_TIME}" if is_slow else "")

    @property
    def loss(self) -> str:
        """What its quarantine means for permission checks."""
        missing = {
            None: "; permission checks may be missing: it did not come far enough to say",
            True: "; its permission checks are missing",
            False: "",
        }
        return missing[self.brings_checks]


class SlowPluginError(PluginError):
    """A plugin has not answered in time, which says nothing against it."""


class IncompatibleError(PluginError):
    """A plugin was written for another version of the core."""


def not_active(record: PluginRecord, word: str, name: str) -> PluginError:
    """Return the error for a record of an inactive plugin."""
    hint = "`prsm doctor` tells what to do; --debug shows the traceback"
    if record.state is PluginState.DISABLED:
        hint = "leave out that option, or take it off that list"
    elif record.state is PluginState.SLOW:
        hint = record.cure
    return PluginError(
        f"{word} {name!r}: plugin {record.name} ({record}) is {record.state}: {record.error}",
        hint=hint,
    )


def unknown(
    word: str,
    name: str,
    known: Sequence[str],
    *,
    switched_off: bool = False,
    lost: Sequence[PluginRecord] = (),
) -> PluginError:
    """Return the error for an unknown name, which plugins `switched_off` or `lost` may have."""
    near = nearest(name, known)
    silent = [f"{one.name} ({one}) is not used, {one.state}: {one.error}" for one in lost]
    return PluginError(
        f"there is no {word} {name!r}" + (f"; did you mean {near!r}?" if near else ""),
        hint=f"installed: {', '.join(sorted(known)) or 'none'}"
        + (f"; {SWITCHED_OFF}" if switched_off else "")
        + "".join(f"; plugin {text}" for text in silent),
    )


def nearest(name: str, known: Sequence[str]) -> str | None:
    """Return the known name that is much like `name`, itself where it is known."""
    if name in known:
        return name
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, known, n=1)), None)


def one_line(error: BaseException) -> str:
    """Return an exception in one line."""
    if isinstance(error, PluginError):
        return error.message
    return " ".join("".join(traceback.format_exception_only(error)).split())
