"""What commands about the command policy use: a folder's rules and a run's verdicts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from prsm_core.cli.places import workspace_paths
from prsm_core.cli.setup import load_setup, tell_quarantined
from prsm_core.config import load_settings
from prsm_core.config.own_rules import change_rule, policy_path
from prsm_core.config.paths import written_path
from prsm_core.config.policy_file import MAX_WORDS, parse_rule, read_policy
from prsm_core.domain.agents import AgentRole
from prsm_core.domain.permissions import Allow, Ask, Deny, PermissionContext, PermissionRequest
from prsm_core.domain.tools import NATIVE_TOOLS
from prsm_core.engine.tools.table import ToolTable
from prsm_core.errors import PluginError
from prsm_core.interfaces.permission import PermissionCheckSpec
from prsm_core.interfaces.provider import ProviderSpec
from prsm_core.interfaces.sink import EventSinkSpec
from prsm_core.interfaces.tool import ToolContribution
from prsm_core.loop.run import run_to_end
from prsm_core.permissions import PermissionBroker, build_policy
from prsm_core.permissions.commands import command_policy
from prsm_core.permissions.own_state import own_state
from prsm_core.plugins.needed import check_required
from prsm_core.plugins.printing import stdout_kept
from prsm_core.policies.port import (
    CommandPolicy,
    CommandPolicySpec,
    CommandRules,
    CommandSetting,
    Judgement,
    Words,
)
from prsm_core.policies.written import Written

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping, Sequence
    from pathlib import Path

    from prsm_core.cli.launch import Launch
    from prsm_core.domain.permissions import Verdict
    from prsm_core.policies.own_state import OwnState

VERDICTS = ("allow", "ask", "deny")
_AGENT = "policy-check"
_SHELL_CALL = "run_bash"


class PolicyDesk:
    """The rules of a folder, and what a run there decides by them or by others.

    workspace: The folder.
    trusted: Whether the user trusts its `.prism`.
    """

    def __init__(self, launch: Launch, workspace: str) -> None:
        """Load settings and plugins. Raises ConfigError where the configuration is wrong."""
        self._setup = load_setup(launch, workspace)
        self._collect = self._setup.plugins.collect
        self.workspace, self.trusted = str(self._setup.paths.workspace), self._setup.trusted

    def check_plugins(self) -> None:
        """Raise PluginError if a required check is missing; name unused plugins on stderr."""
        check_required(self._setup.plugins, self._setup.settings.permissions.required)
        tell_quarantined(self._setup.plugins)

    def policy(self, user: Path | None = None) -> CommandPolicy:
        """Return a run's command policy; the file `user` replaces the user's own rules.

        Raises ValueError for an invalid file.
        """
        setup = self._setup
        rules = read_policy(setup.paths, setup.snapshot, user=user)
        if user is not None and rules.problems:
            raise ValueError("; ".join(rules.problems))
        return build_policy(
            self._collect(CommandPolicySpec),
            setup.settings.permissions,
            rules,
            own=self._own_state,
            written=written_path(setup.paths),
        )

    def policy_of(self, given: Mapping[str, Any], *, is_workspace: bool) -> CommandPolicy:
        """Return a run's command policy with only these rules, lists by verdict.

        Raises AttributeError, TypeError or ValueError for invalid rules.
        """
        allow, ask, deny = (tuple(map(_words, given.get(name) or ())) for name in VERDICTS)
        rules = CommandRules(
            allow=() if is_workspace else allow,
            ask=ask,
            deny=deny,
            workspace_allow=allow if is_workspace else (),
            own=self._own_state(),
            written=Written(),
        )
        name = self._setup.settings.permissions.command_policy
        return command_policy(self._collect(CommandPolicySpec), name, lambda: rules)

    def judge_command(
        self, command: str, policy: CommandPolicy, setting: CommandSetting
    ) -> Judgement:
        """Judge a worker's shell command by a policy and all checks."""
        request = PermissionRequest(
            agent_id=_AGENT,
            tool="Bash",
            arguments={"command": command},
            cwd=setting.cwd,
            command=command,
        )
        verdict = _judged(self._broker(policy).reconsider(request, self._context(setting)))
        try:
            judgement = policy.judge(command, setting)
        except PluginError:  # by which the broker has denied it
            return Judgement(verdict=verdict)
        # Where both say the same, the policy says it more exactly.
        has_check = isinstance(verdict, Ask | Deny) and verdict.check is not None
        is_same = type(verdict) is type(judgement.verdict) and not has_check
        return judgement if is_same else Judgement(verdict=verdict)

    def judge_tool(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        policy: CommandPolicy,
        setting: CommandSetting,
    ) -> Judgement:
        """Judge a worker's call of a tool, PRSM's own or another."""
        broker, context = self._broker(policy), self._context(setting)
        request = PermissionRequest(
            agent_id=_AGENT, tool=tool, arguments=arguments, cwd=setting.cwd
        )
        if tool not in self._own_tools():
            return Judgement(verdict=_judged(broker.reconsider(request, context)))
        verdict = _judged(broker.judge_call(request, context))
        command = arguments.get("command")
        if isinstance(verdict, Allow) and tool == _SHELL_CALL and isinstance(command, str):
            return self.judge_command(command, policy, setting)
        return Judgement(verdict=verdict)

    def rules(self) -> Iterator[dict[str, Any]]:
        """Yield the rules of the configuration and of the policy files as JSON values."""
        setup = self._setup
        loaded = load_settings(
            paths=setup.paths, environ=os.environ, trusted=setup.trusted, snapshot=setup.snapshot
        )
        of_files = read_policy(setup.paths, setup.snapshot).rules
        for verdict in VERDICTS:
            for index, words in enumerate(getattr(loaded.settings.permissions, verdict)):
                key = f"permissions.{verdict}"
                origin = loaded.sources.get(f"{key}[{index}]") or loaded.sources.get(key, "")
                yield _row(verdict, words, "configuration", origin)
            for rule in of_files:
                if rule.verdict == verdict:
                    holds = setup.trusted or verdict != "allow" or rule.layer == "user"
                    note = "" if holds else "ignored: the workspace is not trusted"
                    yield _row(verdict, rule.words, rule.layer, rule.origin, note)

    def _broker(self, policy: CommandPolicy) -> PermissionBroker:
        return PermissionBroker(
            self._setup.settings.permissions,
            checks=self._collect(PermissionCheckSpec),
            orchestration=self._own_tools(),
            commands=policy,
            own=self._own_state,
        )

    def _own_state(self) -> OwnState:
        providers, sinks = self._collect(ProviderSpec), self._collect(EventSinkSpec)
        return own_state(providers.values(), sinks.values(), self._setup.settings.sinks)

    def _own_tools(self) -> frozenset[str]:
        return ToolTable().with_added(self._collect(ToolContribution).values()).names

    def _context(self, setting: CommandSetting) -> PermissionContext:
        return PermissionContext(
            mode=setting.mode,
            role=AgentRole.WORKER,
            provider=self._setup.settings.defaults.provider or "",
            workspace=setting.workspace,
            trusted=setting.trusted,
            interactive=True,
            tools=NATIVE_TOOLS,
            lineage=(_AGENT,),
        )


def edit_rule(
    workspace: str, verdict: str, words: Words, *, project: bool, adds: bool
) -> tuple[Path, Words, bool]:
    """Add or remove a rule; return the file, the rule, and whether it has changed.

    A single word may be a whole rule in quotes. Raises ValueError for an invalid rule.
    """
    paths = workspace_paths(workspace)
    rule = parse_rule(words[0] if len(words) == 1 else list(words), verdict)
    changed = change_rule(paths, verdict, rule, project=project, adds=adds)
    return policy_path(paths, project=project), rule, changed


def _judged(work: Coroutine[Any, Any, Verdict]) -> Verdict:
    with stdout_kept():
        return run_to_end(work)


def _words(rule: str | Sequence[str]) -> Words:
    words = tuple(rule.split()) if isinstance(rule, str) else tuple(rule)
    if not words or len(words) > MAX_WORDS or not all(words):
        raise ValueError(f"a rule has 1 to {MAX_WORDS} words: {rule!r}")
    return words


def _row(
    verdict: str, words: Sequence[str], layer: str, origin: str, note: str = ""
) -> dict[str, Any]:
    rule = {"verdict": verdict, "words": list(words)}
    return {**rule, "layer": layer, "origin": origin, "note": note}
