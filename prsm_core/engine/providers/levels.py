"""Levels of enforcement: which one a policy needs to hold in full, and which a provider has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.agents import PermissionMode
from prsm_core.errors import ProviderNotAvailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.config.schema import PermissionSettings
    from prsm_core.interfaces.permission import PermissionCheckSpec
    from prsm_core.interfaces.provider import ProviderCapabilities, ProviderStatus

_REACH = {  # each level reaches further than the one before it
    "none": "its own tools run as it likes",
    "sandbox": "its own tools run as it likes, in its sandbox",
    "approval": "it asks for what it takes for dangerous, and the rest runs unasked",
    "pre_tool": "it asks before each of its own tools",
}
LEVELS = tuple(_REACH)
# Runs in which agents ask for their edits where the setting wants it.
_EDITS_BY_SETTING = frozenset({PermissionMode.DEFAULT, PermissionMode.DELEGATE})
HINT = "use another provider, or lower permissions.require"


def needed_level(
    permissions: PermissionSettings, mode: PermissionMode, *, asks_edits: bool = False
) -> tuple[str, str]:
    """Return the level that a policy needs to hold in full, and what needs it, for people."""
    if permissions.require is not None:
        return permissions.require, "permissions.require wants"
    if mode is PermissionMode.PLAN:
        return "pre_tool", "plan mode needs"
    if permissions.deny or permissions.ask:
        return "pre_tool", "deny and ask rules need"
    if permissions.required or any(verdict != "allow" for verdict in permissions.tools.values()):
        return "pre_tool", "verdicts on tools and required checks need"
    if permissions.edits == "ask" and mode in _EDITS_BY_SETTING and not asks_edits:
        return "pre_tool", "permissions.edits: ask needs"
    return "approval", "the command policy needs"


def describe_shortfall(
    permissions: PermissionSettings,
    mode: PermissionMode,
    capabilities: ProviderCapabilities,
    status: ProviderStatus | None,
) -> str:
    """Return what of a policy a provider does not enforce, for people, or a blank."""
    level, why = needed_level(permissions, mode, asks_edits=capabilities.asks_edits)
    problems = () if status is None else status.gaps
    has = capabilities.enforcement
    if not reaches(capabilities, level):
        reach = _REACH.get(has, _REACH["none"])
        problems = (f"{why} {level!r} and it has {has!r}, where {reach}", *problems)
    return "; ".join(problems)


def beyond_regions(capabilities: ProviderCapabilities) -> str:
    """Return why a provider's agents can write beside their region unasked, or a blank."""
    asks = reaches(capabilities, "approval") and capabilities.asks_edits
    if asks or reaches(capabilities, "pre_tool"):
        return ""
    return _REACH.get(capabilities.enforcement, _REACH["none"])


def describe_blind(
    check: PermissionCheckSpec,
    provider: str,
    capabilities: ProviderCapabilities,
    gaps: Sequence[str],
) -> str:
    """Return, for people, what a plugin's check does not see of a provider, or a blank."""
    if reaches(capabilities, check.level or "none"):
        gap = "; ".join(gaps)
        said = f"the check {check.name} does not hold all that agents of {provider} do: {gap}"
        return said if gap else ""
    reach = _REACH.get(capabilities.enforcement, _REACH["none"])
    return (
        f"the check {check.name} does not see all that agents of {provider} do: {reach}; "
        f"permissions.require: {check.level} starts none on such a provider"
    )


def check_level(
    name: str,
    permissions: PermissionSettings,
    capabilities: ProviderCapabilities,
    status: ProviderStatus | None,
) -> None:
    """Raise ProviderNotAvailableError for a provider below `permissions.require`."""
    if permissions.require is None or reaches(capabilities, permissions.require):
        return
    short = describe_shortfall(permissions, PermissionMode.DEFAULT, capabilities, status)
    raise ProviderNotAvailableError(f"provider {name} does not enforce enough: {short}", hint=HINT)


def reaches(capabilities: ProviderCapabilities, level: str) -> bool:
    """Return whether a provider enforces at least a level; unknown words count as none."""
    has = capabilities.enforcement
    return (LEVELS.index(has) if has in LEVELS else 0) >= LEVELS.index(level)
