"""Asks the broker of a run, with the checks of plugins, what would become of something."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from prsm_core.config.paths import written_path
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
from prsm_core.permissions import build_broker, build_policy
from prsm_core.permissions.commands import command_policy
from prsm_core.permissions.own_state import own_state
from prsm_core.plugins.printing import stdout_kept
from prsm_core.policies.port import CommandPolicySpec, Judgement

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from prsm_core.cli.setup import Setup
    from prsm_core.config.policy_file import Policy
    from prsm_core.domain.permissions import Verdict
    from prsm_core.permissions import PermissionBroker
    from prsm_core.policies.own_state import OwnState
    from prsm_core.policies.port import CommandPolicy, CommandRules, CommandSetting

_AGENT = "policy-check"
_SHELL_CALL = "run_bash"


def judge_command(
    command: str, setup: Setup, store: CommandPolicy, setting: CommandSetting
) -> Judgement:
    """Return what becomes of a worker's shell command by the rules of `store` and all checks."""
    request = PermissionRequest(
        agent_id=_AGENT,
        tool="Bash",
        arguments={"command": command},
        cwd=setting.cwd,
        command=command,
    )
    verdict = _judged(_broker(setup, store).reconsider(request, _context(setup, setting)))
    try:
        judgement = store.judge(command, setting)
    except PluginError:  # by which the broker has denied it
        return Judgement(verdict=verdict)
    # Where both say the same, the policy says it more exactly.
    is_same = type(verdict) is type(judgement.verdict) and check_of(verdict) is None
    return judgement if is_same else Judgement(verdict=verdict)


def judge_tool(
    tool: str,
    arguments: Mapping[str, Any],
    setup: Setup,
    store: CommandPolicy,
    setting: CommandSetting,
) -> Judgement:
    """Return what becomes of a worker's call of a tool, PRSM's own or another."""
    broker, context = _broker(setup, store), _context(setup, setting)
    request = PermissionRequest(agent_id=_AGENT, tool=tool, arguments=arguments, cwd=setting.cwd)
    if tool not in _own_tools(setup):
        return Judgement(verdict=_judged(broker.reconsider(request, context)))
    verdict = _judged(broker.judge_call(request, context))
    command = arguments.get("command")
    if isinstance(verdict, Allow) and tool == _SHELL_CALL and isinstance(command, str):
        return judge_command(command, setup, store, setting)
    return Judgement(verdict=verdict)


def check_of(verdict: Verdict) -> str | None:
    """Return the name of the check that gave a verdict, None for a rule of PRSM's own."""
    return verdict.check if isinstance(verdict, Ask | Deny) else None


def _judged(work: Coroutine[Any, Any, Verdict]) -> Verdict:
    with stdout_kept():
        return run_to_end(work)


def _broker(setup: Setup, store: CommandPolicy) -> PermissionBroker:
    return build_broker(
        setup.settings.permissions,
        workspace=str(setup.paths.workspace),
        checks=setup.plugins.collect(PermissionCheckSpec),
        orchestration=_own_tools(setup),
        commands=store,
        own=partial(own_state_of, setup),
    )


def policy_of(setup: Setup, policy: Policy) -> CommandPolicy:
    """Return the command policy of a run here, with the rules of these policy files."""
    return build_policy(
        setup.plugins.collect(CommandPolicySpec),
        setup.settings.permissions,
        policy,
        own=partial(own_state_of, setup),
        written=written_path(setup.paths),
    )


def policy_of_rules(setup: Setup, rules: CommandRules) -> CommandPolicy:
    """Return the command policy of a run here, with these rules alone."""
    name = setup.settings.permissions.command_policy
    return command_policy(setup.plugins.collect(CommandPolicySpec), name, lambda: rules)


def own_state_of(setup: Setup) -> OwnState:
    """Return which paths are PRSM's own, by what the plugins say."""
    collect = setup.plugins.collect
    sinks = collect(EventSinkSpec).values()
    return own_state(collect(ProviderSpec).values(), sinks, setup.settings.sinks)


def _own_tools(setup: Setup) -> frozenset[str]:
    return ToolTable().with_added(setup.plugins.collect(ToolContribution).values()).names


def _context(setup: Setup, setting: CommandSetting) -> PermissionContext:
    return PermissionContext(
        mode=setting.mode,
        role=AgentRole.WORKER,
        provider=setup.settings.defaults.provider or "",
        workspace=setting.workspace,
        trusted=setting.trusted,
        interactive=True,
        tools=NATIVE_TOOLS,
        lineage=(_AGENT,),
    )
