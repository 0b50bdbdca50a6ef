"""Who may do what: the broker and what it decides by.

broker         the rules in order
checks         the checks of plugins
commands       the command policy of a plugin, or one that asks about all
guard, results  repeated commands, and what is the same result
grants         what was allowed "always"
edits          what an edit would change; `changes` as lines
paths          where a file tool may read and write
own_state      where PRSM's own state lies
kept_names     what agents may have written of the project's environment, in a file
redaction      secrets out of text
secret_shapes  … what they look like
random_keys    … keys that no table lists
skills         which there are, of the user and of a workspace

What judges commands takes longer to import than all else before a run's first turn. A plugin brings
it, and it is imported with the first command.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.permissions.broker import PermissionBroker
from prsm_core.permissions.commands import command_policy
from prsm_core.permissions.grants import Grants
from prsm_core.permissions.redaction import Redactor
from prsm_core.permissions.results import Outcome, outcome_of
from prsm_core.policies.port import CommandRules, CommandSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from prsm_core.config.policy_file import Policy
    from prsm_core.config.schema import PermissionSettings
    from prsm_core.policies.own_state import OwnState
    from prsm_core.policies.port import CommandPolicy, CommandPolicySpec

__all__ = [
    "CommandSetting",
    "Grants",
    "Outcome",
    "PermissionBroker",
    "Redactor",
    "build_policy",
    "outcome_of",
]


def build_policy(
    specs: Mapping[str, CommandPolicySpec],
    settings: PermissionSettings,
    policy: Policy | None = None,
    *,
    own: Callable[[], OwnState] | None = None,
    written: Path | None = None,
) -> CommandPolicy:
    """Return the command policy that the settings name, built with the first command.

    `written` keeps what agents may have written of the project's environment.
    """
    return command_policy(
        specs, settings.command_policy, partial(_rules, settings, policy, own, written)
    )


def _rules(
    settings: PermissionSettings,
    policy: Policy | None,
    own: Callable[[], OwnState] | None,
    written: Path | None,
) -> CommandRules:
    from prsm_core.permissions.kept_names import KeptNames
    from prsm_core.permissions.own_state import own_state
    from prsm_core.policies.written import Written

    rules = CommandRules(
        allow=settings.allow,
        ask=settings.ask,
        deny=settings.deny,
        own=(own or own_state)(),
        written=Written() if written is None else KeptNames(written),
    )
    if policy is None:
        return rules
    return replace(
        rules,
        allow=(*rules.allow, *policy.words("allow", "user")),
        ask=(*rules.ask, *policy.words("ask")),
        deny=(*rules.deny, *policy.words("deny")),
        workspace_allow=policy.words("allow", "workspace"),
        broken=policy.problems[0] if policy.incomplete else None,
    )
