"""The permission broker: the one function that decides what an agent may do.

Vendors' hooks and approvals ask it as well as run_bash. Rules stand in order, and the first with an
opinion decides: so a deny rule holds in every mode.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from functools import cached_property
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from prsm_core.domain.agents import SHELL_READERS, PermissionMode
from prsm_core.domain.permissions import Allow, Ask, Deny
from prsm_core.domain.tools import EDIT_TOOLS, NATIVE_TOOLS, READ_TOOLS
from prsm_core.errors import PluginError
from prsm_core.permissions.checks import PluginChecks
from prsm_core.permissions.commands import ONCE
from prsm_core.permissions.grants import Grants
from prsm_core.permissions.guard import BashRepeatGuard, Shell, tree_of
from prsm_core.permissions.results import DENIED
from prsm_core.policies.port import CommandSetting, UnaskedError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from prsm_core.config.schema import PermissionSettings
    from prsm_core.domain.permissions import PermissionContext, PermissionRequest, Verdict
    from prsm_core.interfaces.permission import PermissionCheckSpec
    from prsm_core.permissions.results import Outcome
    from prsm_core.policies.own_state import OwnState, Trespass
    from prsm_core.policies.port import CommandPolicy

T = TypeVar("T")

CONTROL_TOOLS = frozenset({"ExitPlanMode", "update_plan"})  # they only steer their own turn
# How vendors write a tool of ours that they reach by MCP.
_PREFIXES = ("mcp__prsm__", "mcp_prsm_", "mcp__orchestrator__")
SHELL = "Bash"
LOOKING_TOOLS = READ_TOOLS | {"WebFetch", "WebSearch"}  # they change nothing
# In these modes the setting decides about edits; ACCEPT_EDITS and BYPASS make them unasked.
EDITS_BY_SETTING = frozenset({PermissionMode.DEFAULT})
_ENDED = "the agent has ended"
_MAX_PART = 120  # characters of an error that a reason shows
_GIT_SECONDS = 6.0  # for all that one decision needs to know of git

# Those that say their path in an argument; the last are names that not every provider translates.
_FILE_TOOLS = READ_TOOLS | EDIT_TOOLS | {"MultiEdit", "NotebookEdit"}
_PATH_ARGUMENTS = ("file_path", "path", "notebook_path")
_PATTERN_ARGUMENTS = {"Glob": "pattern", "Grep": "glob"}
_WALKING_TOOLS = frozenset({"Grep"})  # they read all that is below a folder


class PermissionBroker:
    """Decides the requests of a session; owns only the repeat guard and the grants.

    `own` returns PRSM's own state, by default by the environment; `now` is in monotonic seconds.
    """

    def __init__(
        self,
        settings: PermissionSettings,
        *,
        commands: CommandPolicy,
        checks: Mapping[str, PermissionCheckSpec],
        orchestration: Collection[str],
        grants: Grants | None = None,
        own: Callable[[], OwnState] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.commands = commands
        self._given_own = own
        self._checks = PluginChecks(checks.values(), settings.trusted)
        self._tool_rules = settings.tools
        self._edits = settings.edits
        self._guard = BashRepeatGuard(commands, now=now)
        self._grants = grants or Grants()
        prefixed = {f"{prefix}{name}" for prefix in _PREFIXES for name in orchestration}
        self._orchestration = frozenset(orchestration) | prefixed
        self._own_tools = CONTROL_TOOLS | self._orchestration
        # In order of the numbers in their docstrings; checks of plugins come in between.
        self._counted = (self._ended, self._repeated)
        self._refusals = (self._ended, self._denied, self._unseen, self._not_among_its_tools)
        self._fixed = (
            *(self._own_tool, self._path, self._plan, self._beside_regions),
            *(self._asked, self._granted),
        )
        self._usual = (self._tool, self._shell)

    @cached_property
    def _own(self) -> OwnState:
        from prsm_core.permissions.own_state import own_state  # with the first path: see the room

        return (self._given_own or own_state)()

    async def decide(self, request: PermissionRequest, context: PermissionContext) -> Verdict:
        """Decide a request: the strongest of the rules and the plugins' checks counts.

        A trusted check's Allow only stands in for a person where rules 11 and 12 would ask one.
        """
        try:
            refusal = _first(self._counted, request, context)
        except Exception as error:  # noqa: BLE001 - a policy that fails refuses
            return _policy_failed(error)
        if refusal is not None:
            return refusal
        verdict = await self.reconsider(request, context)
        if not isinstance(verdict, Ask):
            self.settle(request, context, verdict)
        return verdict

    async def reconsider(self, request: PermissionRequest, context: PermissionContext) -> Verdict:
        """Decide a request as of now, without counting it once more. A rule that fails denies."""
        try:
            return await self._reconsidered(request, context)
        except UnaskedError:
            return Ask("git did not say in time what it would start there", ONCE)
        except Exception as error:  # noqa: BLE001 - a policy that fails refuses
            return _policy_failed(error)

    async def _reconsidered(
        self, request: PermissionRequest, context: PermissionContext
    ) -> Verdict:
        is_fixed, verdict = await _with_answers(lambda: self._by_rules(request, context))
        if isinstance(verdict, Deny):
            return verdict
        own_tool = request.command is None and request.tool in self._orchestration
        checked = await self._checks.strongest(request, context, own_tool=own_tool)
        if isinstance(checked, Deny) or (isinstance(checked, Ask) and isinstance(verdict, Allow)):
            return checked
        if isinstance(checked, Allow) and not is_fixed:
            return checked
        return verdict

    def _by_rules(
        self, request: PermissionRequest, context: PermissionContext
    ) -> tuple[bool, Verdict]:
        """Return whether a rule decides that no plugin may relax, and what the rules decide."""
        decided = _first(self._refusals, request, context) or _first(self._fixed, request, context)
        if decided is not None:
            return True, decided
        return False, _first(self._usual, request, context) or Ask("no rule knows it")

    @property
    def watches_calls(self) -> bool:
        """Whether some check is asked about orchestration calls; there is no other use to ask."""
        return self._checks.watch_calls

    async def judge_call(self, request: PermissionRequest, context: PermissionContext) -> Verdict:
        """Decide an orchestration call by the checks that see them. A person is asked each time."""
        if not context.active:
            return Deny(_ENDED)
        checked = await self._checks.of_call(request, context)
        if isinstance(checked, Ask):
            return replace(checked, options=ONCE, allow_rules=(), deny_rules=())
        return checked if isinstance(checked, Deny) else Allow("no check is against it")

    def settle(
        self, request: PermissionRequest, context: PermissionContext, verdict: Allow | Deny
    ) -> None:
        """Take note that something was let through or refused; called for what a person decides."""
        agent_id, shell = request.agent_id, _shell(request, context)
        if shell is not None and isinstance(verdict, Allow):
            self._guard.began(agent_id, shell)
        elif shell is not None:
            self._guard.denied(agent_id, shell)
        elif isinstance(verdict, Allow) and self._may_change(request.tool):
            self._guard.changed(_trees(_paths(request), request.cwd, context.workspace))
        if isinstance(verdict, Allow):
            self._note_written(request, context)

    def mark(self) -> int:
        """Return the number of now, for `ended`."""
        return self._guard.mark()

    def ended(
        self,
        request: PermissionRequest,
        context: PermissionContext,
        outcome: Outcome | None,
        since: int,
    ) -> None:
        """Note the end of what was let through or ran unasked, after the mark `since`.

        An outcome None was not told.
        """
        shell = _shell(request, context)
        if outcome != DENIED:  # some vendors tell only now of what they did not ask about
            self._note_written(request, context)
        if shell is not None and context.active:
            self._guard.ended(request.agent_id, shell, outcome, since=since)
        elif outcome != DENIED and (shell is not None or self._may_change(request.tool)):
            self._guard.changed(_trees(_paths(request), request.cwd, context.workspace))

    def _note_written(self, request: PermissionRequest, context: PermissionContext) -> None:
        """Take note of what an agent may write of the project's environment."""
        command = _command(request)
        if command is not None:
            self.commands.note_command(command, _setting(request, context))
        elif self._may_change(request.tool) and (paths := tuple(_paths(request))):
            from prsm_core.permissions.paths import written_names  # with the first: see the room

            where = (request.cwd, context.workspace)
            if names := {name for path in paths for name in written_names(path, *where)}:
                self.commands.note_edits(names)

    def changed_by_hand(self, cwd: str, workspace: str) -> None:
        """Take note that a person may have changed files around a folder of an agent."""
        self._guard.changed(_trees((), cwd, workspace))

    def turn_over(self, agent_id: str) -> None:
        """Take note that nothing more is told of what an agent runs."""
        self._guard.turn_over(agent_id)

    def grant(self, agent_id: str, request: PermissionRequest) -> dict[str, Any]:
        """Remember an "always" for the agent's subtree; return it as JSON values for the ledger."""
        self._guard.rules_changed()
        return self._grants.add(agent_id, request, self.commands.exact).to_dict()

    def told(self) -> dict[str, Any]:
        """Return the rules on commands and on whole tools, and the grants, as JSON values."""
        grants = self._grants.to_dicts()
        return {"rules": self.commands.told(), "tools": dict(self._tool_rules), "grants": grants}

    async def may_write(self, request: PermissionRequest, context: PermissionContext) -> bool:
        """Return whether a request may change files; checks of a trusted project run its code."""
        command = _command(request)
        if command is None:
            return self._may_change(request.tool)
        untrusted = replace(_setting(request, context), trusted=False)
        try:
            return not await _with_answers(lambda: self.commands.safe(command, untrusted))
        except (UnaskedError, PluginError):
            return True

    def add_rule(self, verdict: str, rule: Sequence[str]) -> None:
        """Let a rule hold for all agents from now on."""
        self.commands.add(verdict, rule)
        self._guard.rules_changed()

    def forget(self, agent_id: str) -> None:
        """Forget the repeated commands of an agent that has ended."""
        self._guard.forget(agent_id)

    def _ended(self, _request: PermissionRequest, context: PermissionContext) -> Verdict | None:
        """1: an agent that has ended, or was restarted since, does nothing more."""
        return None if context.active else Deny(_ENDED)

    def _repeated(self, request: PermissionRequest, context: PermissionContext) -> Verdict | None:
        """2: the same command with the same result, again and again, helps nobody."""
        shell = _shell(request, context)
        reason = None if shell is None else self._guard.refusal(request.agent_id, shell)
        return None if reason is None else Deny(reason)

    def _denied(self, request: PermissionRequest, _context: PermissionContext) -> Verdict | None:
        """3: deny rules hold in every mode."""
        if self._tool_rules.get(request.tool) == "deny":
            return Deny(f"the rule on {request.tool} forbids it")
        command = _command(request)
        return None if command is None else self.commands.denied(command)

    def _unseen(self, request: PermissionRequest, context: PermissionContext) -> Verdict | None:
        """3: Deny what no agent may see. No rule can allow it."""
        trespass = self._trespass(request, context)
        return Deny(trespass.reason) if trespass is not None and trespass.is_unseen else None

    def _not_among_its_tools(
        self, request: PermissionRequest, context: PermissionContext
    ) -> Verdict | None:
        """4: an agent has the tools it was given, in delegate mode only readers."""
        command = _command(request)
        tool = request.tool if command is None else SHELL
        delegates = context.mode is PermissionMode.DELEGATE
        if tool not in NATIVE_TOOLS:
            is_withheld = delegates and self._own_tool(request, context) is None
            return Deny(f"{tool} is not for delegate mode") if is_withheld else None
        if tool in (context.tools & READ_TOOLS if delegates else context.tools):
            return None
        # Safe commands stand for Read: by vendor, or by role.
        reads_by_shell = context.shell_reads or context.role in SHELL_READERS
        if command is None or "Read" not in context.tools or not reads_by_shell:
            return Deny(f"this agent does not have {tool}")
        if self.commands.safe(command, _setting(request, context)):
            return None
        return Deny("this agent may run read-only commands, and this is not known to be one")

    def _own_tool(self, request: PermissionRequest, _context: PermissionContext) -> Verdict | None:
        """5: PRSM's tools check for themselves, control tools do nothing outside the turn."""
        is_own = request.command is None and request.tool in self._own_tools
        return Allow("a tool of the orchestration") if is_own else None

    def _path(self, request: PermissionRequest, context: PermissionContext) -> Verdict | None:
        """6: nobody writes outside its folder or to protected files, or reads secrets, unasked."""
        reason = self._path_reason(request, context)
        if reason is None:
            return None
        if context.mode is PermissionMode.PLAN:
            return Deny(f"{reason}, and this is plan mode")
        return Ask(reason, ONCE)

    def _path_reason(self, request: PermissionRequest, context: PermissionContext) -> str | None:
        trespass = self._trespass(request, context)
        if trespass is not None:
            return trespass.reason
        paths = tuple(_paths(request))
        if request.tool in EDIT_TOOLS and not paths:
            return "it does not say which file it writes"
        if not paths:
            return None
        # With the first path: what looks at files waits as what judges commands does.
        from prsm_core.permissions.paths import why_not_read, why_not_region, why_not_write

        is_read = request.tool in LOOKING_TOOLS or self._is_safe(request, context)
        where = (request.cwd, context.workspace)
        if is_read:
            reasons = [why_not_read(path, *where, self._own) for path in paths]
        else:
            leases = (context.region, context.leased)
            reasons = [why_not_write(path, *where) for path in paths]
            reasons += [why_not_region(path, *where, *leases) for path in paths]
        return next(filter(None, reasons), None)

    def _trespass(self, request: PermissionRequest, context: PermissionContext) -> Trespass | None:
        """Return why what is asked for leads to PRSM's own state, None if it does not."""
        command = _command(request)
        if command is None and self._own_tool(request, context) is not None:
            return None  # it does nothing with paths but what the engine looks after
        found = None
        if command is not None:
            found = self.commands.trespass(command, _setting(request, context))
        if command is None and request.tool not in _FILE_TOOLS:
            from prsm_core.policies.trespass import why_not_arguments

            found = why_not_arguments(
                request.arguments, _setting(request, context).folder, self._own
            )
        return found or self._trespass_of_paths(request, context)

    def _trespass_of_paths(
        self, request: PermissionRequest, context: PermissionContext
    ) -> Trespass | None:
        paths = [*_paths(request), *_patterns(request)]
        walks = request.tool in _WALKING_TOOLS
        if not paths and not walks:
            return None
        from prsm_core.policies.trespass import why_not_path

        folder = _setting(request, context).folder
        found = [why_not_path(path, folder, self._own, walks=walks) for path in paths or (".",)]
        found.sort(key=lambda each: each is None or not each.is_unseen)
        return next(filter(None, found), None)

    def _plan(self, request: PermissionRequest, context: PermissionContext) -> Verdict | None:
        """7: in plan mode only what changes nothing goes on."""
        if context.mode is not PermissionMode.PLAN:
            return None
        if request.tool in LOOKING_TOOLS or self._is_safe(request, context):
            return None
        return Deny("plan mode changes nothing")

    def _beside_regions(
        self, request: PermissionRequest, context: PermissionContext
    ) -> Verdict | None:
        """8: what a command writes is not told by its text, so beside regions a person decides.

        That holds for an agent's own region too, but not in the sandbox, which keeps to regions,
        nor for what surely stays in an agent's own worktree: only its region is merged.
        """
        if context.sandboxed or (context.region is None and not context.leased):
            return None
        if request.tool != SHELL and request.command is None:
            return None
        command = _command(request)
        # The checks of a trusted project run its code: what that writes nobody can tell.
        untrusted = replace(_setting(request, context), trusted=False)
        if command is not None and self.commands.safe(command, untrusted):
            return None
        is_kept = context.apart and context.region is not None
        if is_kept and command is not None and self.commands.stays_inside(command, untrusted):
            return None
        reason = f"beside regions it is not known to write nothing: {_regions(context)}"
        if context.mode is PermissionMode.PLAN:
            return Deny(f"{reason}, and this is plan mode")
        return Ask(reason, ONCE)

    def _asked(self, request: PermissionRequest, context: PermissionContext) -> Verdict | None:
        """9: ask rules, and what may evade a deny rule, are asked about every time."""
        command = _command(request)
        return None if command is None else self.commands.asked(command, _setting(request, context))

    def _granted(self, request: PermissionRequest, context: PermissionContext) -> Verdict | None:
        """10: what a person has allowed "always" for this agent or one above it."""
        is_granted = self._grants.matches(request, context, self.commands.exact)
        return Allow("granted before") if is_granted else None

    def _tool(self, request: PermissionRequest, context: PermissionContext) -> Verdict | None:
        """11: whole tools, by the user's rule on them, else by what they do."""
        rule = self._tool_rules.get(request.tool)
        if rule == "ask":
            return Ask(f"the rule on {request.tool} wants it")
        if _command(request) is not None:
            return None
        if rule == "allow" or request.tool in LOOKING_TOOLS:
            return Allow(f"{request.tool} is allowed")
        if request.tool in EDIT_TOOLS:
            if self._edits == "allow" or context.mode not in EDITS_BY_SETTING:
                return Allow("edits inside the workspace are allowed")
            return Ask("permissions.edits wants each edit asked about")
        if context.mode is PermissionMode.BYPASS and request.tool != SHELL:
            return Allow("bypass mode")
        return Ask(f"{request.tool} may change something")

    def _shell(self, request: PermissionRequest, context: PermissionContext) -> Verdict | None:
        """12: shell commands by the policy."""
        command = _command(request)
        return (
            None if command is None else self.commands.offered(command, _setting(request, context))
        )

    def _may_change(self, tool: str) -> bool:
        return tool not in self._own_tools and tool not in LOOKING_TOOLS

    def _is_safe(self, request: PermissionRequest, context: PermissionContext) -> bool:
        command = _command(request)
        return command is not None and self.commands.safe(command, _setting(request, context))


def _first(
    rules: Iterable[Callable[[PermissionRequest, PermissionContext], Verdict | None]],
    request: PermissionRequest,
    context: PermissionContext,
) -> Verdict | None:
    verdicts = (rule(request, context) for rule in rules)
    return next((verdict for verdict in verdicts if verdict is not None), None)


async def _with_answers(decide: Callable[[], T]) -> T:
    """Decide, and again with each answer of git's that a thread waits for. Raises UnaskedError."""
    until = time.monotonic() + _GIT_SECONDS
    while True:
        try:
            return decide()
        except UnaskedError as question:
            if time.monotonic() > until:
                raise
            answering = asyncio.to_thread(question.ask)
        with suppress(TimeoutError):
            await asyncio.wait_for(answering, _GIT_SECONDS)


def _command(request: PermissionRequest) -> str | None:
    """Return the shell command of a request; a shell tool may carry it as an argument only."""
    if request.command is None and request.tool == SHELL:
        argument = request.arguments.get("command")
        return argument if isinstance(argument, str) else None
    return request.command


def _paths(request: PermissionRequest) -> Iterator[str]:
    yield from request.paths
    if request.tool in _FILE_TOOLS:
        for name in _PATH_ARGUMENTS:
            value = request.arguments.get(name)
            if isinstance(value, str) and value not in request.paths:
                yield value


def _patterns(request: PermissionRequest) -> Iterator[str]:
    """Yield the patterns for files in a call that looks for them, below the folder it names."""
    if request.tool not in _PATTERN_ARGUMENTS:
        return
    pattern = request.arguments.get(_PATTERN_ARGUMENTS[request.tool])
    if not isinstance(pattern, str) or not pattern:
        return
    yield pattern
    if pattern[:1] != "/":
        yield from (f"{where}/{pattern}" for where in _paths(request))


def _regions(context: PermissionContext) -> str:
    own = () if context.region is None else (f"its own is {', '.join(context.region)}",)
    return ", ".join((*own, *(f"{folder} is of {owner}" for folder, owner in context.leased)))


def _shell(request: PermissionRequest, context: PermissionContext) -> Shell | None:
    """Return a shell command with its folder and its tree, without a look at the disk."""
    command = _command(request)
    if command is None:
        return None
    folder = normpath(Path(context.workspace, request.cwd))
    return Shell(command=command, cwd=folder, tree=tree_of(folder, context.workspace))


def _trees(paths: Iterable[str], cwd: str, workspace: str) -> set[str]:
    """Return the trees that a change of these files concerns, its folder's among them."""
    return {tree_of(normpath(Path(workspace, cwd, path)), workspace) for path in (".", *paths)}


def _setting(request: PermissionRequest, context: PermissionContext) -> CommandSetting:
    return CommandSetting(
        mode=context.mode,
        cwd=request.cwd,
        workspace=context.workspace,
        trusted=context.trusted,
        waits=False,
    )


def _policy_failed(error: Exception) -> Deny:
    what = f"{type(error).__name__}: {error}"[:_MAX_PART]
    return Deny(f"the command policy failed on it ({what}); report it, and try another command")
