"""Asks the broker of a run, with the checks of plugins, what would become of something.

Reads what to judge from the ledger, too: the commands that agents ran, and what became of them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core.cli.ledger import choose_session, open_ledger
from prsm_core.config.paths import written_path
from prsm_core.domain.agents import AgentRole, PermissionMode
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
from prsm_core.permissions.replay import Outcome, Recorded
from prsm_core.plugins.printing import stdout_kept
from prsm_core.policies.port import CommandPolicySpec, Judgement

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from prsm_core.cli.setup import Setup
    from prsm_core.config.policy_file import Policy
    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.events import Event
    from prsm_core.domain.permissions import Verdict
    from prsm_core.interfaces.store import SessionInfo, Store
    from prsm_core.permissions import PermissionBroker
    from prsm_core.policies.own_state import OwnState
    from prsm_core.policies.port import CommandPolicy, CommandRules, CommandSetting


_ALLOWING = frozenset({"once", "always", "allow_project", "allow_global"})
_PERSON = "user"  # who answered; others do so in a person's place
_DENIED = "denied"  # how a vendor's own tool ends
_REFUSAL = "not permitted: "  # how run_bash does


async def read_recorded(workspace: str, prefixes: Sequence[str]) -> list[Recorded]:
    """Return the commands of sessions of a repository in order; of all where none is named.

    Raises:
        StoreError: there is no ledger, no such session, or more than one.
    """
    async with open_ledger(workspace) as store:
        sessions = await store.sessions()
        wanted = [choose_session(sessions, prefix) for prefix in prefixes]
        found: list[Recorded] = []
        for session in wanted or reversed(sessions):
            found += await _of_session(store, session)
        return found


async def _of_session(store: Store, session: SessionInfo) -> list[Recorded]:
    rows = await store.agents(session.session_id)
    agents = {row.descriptor.agent_id: row.descriptor for row in rows}
    reading = _Reading()
    async for event in store.events(session.session_id):
        reading.take(event)
    return [
        _recorded(entry, agents[entry.agent], session.workspace)
        for entry in reading.entries
        if entry.agent in agents
    ]


@dataclass(slots=True)
class _Entry:
    """A command as its events tell of it, bit by bit."""

    agent: str
    command: str
    cwd: str | None = None
    is_called: bool = False  # its call was told of
    request: str | None = None
    answer: str | None = None
    by: str = ""
    is_denied: bool = False


class _Reading:
    """Joins the calls of a session with the requests that were made for them.

    No event names both. They belong together where agent and command are the same, the first
    with the first; either may come before the other.
    """

    def __init__(self) -> None:
        self.entries: list[_Entry] = []
        self._calls: dict[str, _Entry] = {}
        self._requests: dict[str, _Entry] = {}
        self._uncalled: defaultdict[tuple[str, str], deque[_Entry]] = defaultdict(deque)
        self._unasked: defaultdict[tuple[str, str], deque[_Entry]] = defaultdict(deque)

    def take(self, event: Event) -> None:
        data, agent = event.data, event.agent or ""
        if event.type == "tool_call_started":
            self._start(agent, str(data.get("call")), data.get("arguments") or {})
        elif event.type == "tool_call_finished":
            self._finish(self._calls.pop(str(data.get("call")), None), data)
        elif event.type == "permission_requested" and isinstance(data.get("command"), str):
            self._ask(agent, str(data.get("request")), data["command"])
        elif event.type == "permission_resolved":
            entry = self._requests.pop(str(data.get("request")), None)
            if entry is not None:
                entry.answer, entry.by = str(data.get("verdict")), str(data.get("by"))

    def _start(self, agent: str, call: str, arguments: Mapping[str, object]) -> None:
        command, cwd = arguments.get("command"), arguments.get("cwd")
        if not isinstance(command, str) or not command.strip():
            return
        waiting = self._uncalled[agent, command]
        entry = waiting.popleft() if waiting else self._new(agent, command)
        entry.is_called = True
        entry.cwd = cwd if isinstance(cwd, str) else None
        self._calls[call] = entry
        if entry.request is None:
            self._unasked[agent, command].append(entry)

    def _finish(self, entry: _Entry | None, data: Mapping[str, object]) -> None:
        if entry is None:
            return
        reason = data.get("error")
        is_refusal = isinstance(reason, str) and reason.startswith(_REFUSAL)
        entry.is_denied = data.get("status") == _DENIED or is_refusal
        open_calls = self._unasked[entry.agent, entry.command]
        if entry in open_calls:
            open_calls.remove(entry)

    def _ask(self, agent: str, request: str, command: str) -> None:
        waiting = self._unasked[agent, command]
        entry = waiting.popleft() if waiting else self._new(agent, command)
        entry.request = request
        self._requests[request] = entry
        if not entry.is_called:
            self._uncalled[agent, command].append(entry)

    def _new(self, agent: str, command: str) -> _Entry:
        self.entries.append(entry := _Entry(agent, command))
        return entry


def _recorded(entry: _Entry, agent: AgentDescriptor, workspace: str) -> Recorded:
    return Recorded(
        command=entry.command,
        mode=PermissionMode(agent.mode),
        cwd=str(Path(agent.cwd, entry.cwd or "")),
        workspace=workspace,
        outcome=_outcome(entry),
        by_person=entry.by == _PERSON,
    )


def _outcome(entry: _Entry) -> Outcome:
    if entry.answer in _ALLOWING:
        return Outcome.APPROVED
    if entry.request is not None:
        return Outcome.REFUSED
    return Outcome.DENIED if entry.is_denied else Outcome.RAN


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
