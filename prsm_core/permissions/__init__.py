"""Who may do what: the broker and what it decides by.

broker           the rules in order
checks           the checks of plugins
policy           the verdict on a shell command
command_setting  … what it depends on beside the text
rules            how rules are compared with commands
allowed_by_rule  which commands a rule to allow covers
extent           … which words behind the rule's
lookups, builds  the classes of what services tell, and of what builds the project
safe             commands that need no rule
danger           commands that are always asked about
understood       programs whose arguments are understood
staying          which commands surely write in the workspace alone
renamed          programs under other names
offers           rules that answers make
replay           recorded commands, judged by other rules
guarded          folders that nobody reads as a whole without asking
guard, results   repeated commands, and what is the same result
polling          what only reads or looks, remembered
by_text          … told by the text
grants           what was allowed "always"
edits, before    what an edit would change; what its file held before; `changes` as lines
names            names of secrets
paths            where a command may read and write
written          what agents may have written of the project's environment
own_state        what is PRSM's own; `trespass` whether a command or a tool leads there
within           whether a path is below a folder
patterns, tree   what patterns stand for; what lies below a folder, kept
redaction        secrets out of text
secret_shapes    … what they look like
random_keys      … keys that no table lists
secret_places    what the sandbox hides
notes            the notes of a repository
skills           which there are, of the user and of a workspace

What judges commands is most of this room, and takes longer to import than all else before a run's
first turn. It is imported with the first command: by the broker's policy, by `polling` and by
`grants`, and nowhere else on the way to that turn.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from prsm_core.permissions.broker import PermissionBroker
from prsm_core.permissions.command_setting import CommandSetting
from prsm_core.permissions.grants import Grants, Permit
from prsm_core.permissions.guard import BashRepeatGuard
from prsm_core.permissions.redaction import Redactor
from prsm_core.permissions.results import Outcome, outcome_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from prsm_core.config.policy_file import Policy
    from prsm_core.config.schema import PermissionSettings
    from prsm_core.interfaces.permission import PermissionCheckSpec
    from prsm_core.permissions.own_state import OwnState
    from prsm_core.permissions.policy import CommandPolicyStore

__all__ = [
    "BashRepeatGuard",
    "CommandPolicyStore",
    "CommandSetting",
    "Grants",
    "Outcome",
    "PermissionBroker",
    "Permit",
    "Redactor",
    "build_broker",
    "build_policy",
    "outcome_of",
]

# How vendors write a tool of ours that they reach by MCP.
_PREFIXES = ("mcp__prsm__", "mcp_prsm_", "mcp__orchestrator__")


def build_broker(
    settings: PermissionSettings,
    *,
    workspace: str,
    checks: Mapping[str, PermissionCheckSpec],
    orchestration: Collection[str],
    grants: Grants | None = None,
    policy: Policy | None = None,
    store: CommandPolicyStore | None = None,
    own: Callable[[], OwnState] | None = None,
    written: Path | None = None,
    now: Callable[[], float] = time.monotonic,
) -> PermissionBroker:
    """Return the broker of a session on a workspace.

    Args:
        settings: The rules of all configuration layers.
        workspace: Where the session works; the context of each request names it again.
        checks: The permission checks of plugins by name.
        orchestration: The names of PRSM's own tools.
        grants: What was allowed "always" before, for a session that is resumed.
        policy: The rules of the policy files.
        store: The rules on commands, instead of those of `settings` and `policy`.
        own: Returns PRSM's own state; by default where the environment has it, without what
            plugins say of it.
        written: Keeps what agents may have written of the project's environment.
        now: Monotonic seconds.
    """
    names = frozenset(orchestration)
    known = names | {f"{prefix}{name}" for prefix in _PREFIXES for name in names}
    return PermissionBroker(
        partial(build_policy, settings, policy, own, written) if store is None else lambda: store,
        checks=checks.values(),
        trusted_checks=settings.trusted,
        tool_rules=settings.tools,
        edits=settings.edits,
        guard=BashRepeatGuard(now=now),
        grants=grants or Grants(),
        own=own,
        is_orchestration=known.__contains__,
    )


def build_policy(
    settings: PermissionSettings,
    policy: Policy | None,
    own: Callable[[], OwnState] | None = None,
    written: Path | None = None,
) -> CommandPolicyStore:
    """Return the command policy of the settings and of the policy files."""
    from prsm_core.permissions.policy import CommandPolicyStore
    from prsm_core.permissions.written import Written

    state, noted = None if own is None else own(), Written(written)
    if policy is None:
        return CommandPolicyStore(
            settings.allow, settings.ask, settings.deny, own=state, written=noted
        )
    return CommandPolicyStore(
        (*settings.allow, *policy.words("allow", "user")),
        (*settings.ask, *policy.words("ask")),
        (*settings.deny, *policy.words("deny")),
        workspace_allow=policy.words("allow", "workspace"),
        broken=policy.problems[0] if policy.incomplete else None,
        own=state,
        written=noted,
    )


if not TYPE_CHECKING:  # else a type checker would believe in every misspelt name

    def __getattr__(name: str) -> object:
        if name != "CommandPolicyStore":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from prsm_core.permissions.policy import CommandPolicyStore

        return CommandPolicyStore
