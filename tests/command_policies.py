"""The command policy that is installed, for tests of what uses one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_policy.plugin import prsm_command_policies
from prsm_policy.policy import BashPolicy

from prsm_core.config.schema import PermissionSettings
from prsm_core.permissions import build_policy
from prsm_core.permissions.own_state import own_state

if TYPE_CHECKING:
    from prsm_core.policies import CommandPolicy, OwnState

POLICIES = {spec.name: spec for spec in prsm_command_policies()}


def policy_for(settings: PermissionSettings, **options: Any) -> CommandPolicy:
    """Return the policy of these permissions."""
    return build_policy(POLICIES, settings, **options)


# Without rules, for what only reads commands.
POLICY = policy_for(PermissionSettings())


def make_policy(*rules: Any, own: OwnState | None = None, **options: Any) -> BashPolicy:
    """Return the policy of these rules to allow, to ask and to deny."""
    return BashPolicy(*rules, own=own or own_state(), **options)


class Unreadable(str):
    """A text that makes whatever reads it fail."""

    __slots__ = ()

    def __len__(self):
        raise KeyError("unreadable")
