"""How a run begins: its model, the notices before it, its master and the session's name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from prsm_core.domain.agents import AgentRole, PermissionMode, SpawnRequest
from prsm_core.domain.notes import ModelChoice
from prsm_core.domain.tools import NATIVE_TOOLS
from prsm_core.domain.turns import Notice
from prsm_core.domain.writes import RunStarted, Told
from prsm_core.engine.processes.table import process_identity
from prsm_core.engine.providers.listings import (
    ask_for,
    judge_names,
    look_at_names,
    place_of_name,
    told_of_names,
)
from prsm_core.engine.providers.model_choice import describe_stand_in, resolve_model, stand_ins
from prsm_core.engine.providers.model_names import ANY_MODEL, DEFAULT_MODEL, UNKNOWN
from prsm_core.engine.spawn import choose_servers, default_cwd, describe_master
from prsm_core.errors import ConfigError, ModelNotAvailableError, PrsmError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.sessions import SessionState
    from prsm_core.domain.steps import Write
    from prsm_core.domain.tools import McpServer
    from prsm_core.domain.writes import SessionNamed
    from prsm_core.engine.agents.side_query import Naming
    from prsm_core.engine.agents.user_prompts import KeptText
    from prsm_core.engine.assembly import Assembly
    from prsm_core.engine.providers.listings import SetName
    from prsm_core.engine.state import AgentRecord
    from prsm_core.interfaces.provider import ProviderSpec
    from prsm_core.interfaces.sink import EventSinkSpec
    from prsm_core.interfaces.tool import ToolContribution

ONLY_READS = (
    "mode bypass is for the agents that the master spawns: it only reads itself. With --solo, or "
    "engine.master: solo, it edits files and runs commands, too"
)


class Starting(Struct, eq=False):
    """Prepares runs, and owns the one question about the session's name."""

    parts: Assembly
    _naming: tuple[Naming, asyncio.Task[None]] | None = None
    _doubtful: Sequence[SetName] = ()  # names that providers have to be asked about
    _checking: asyncio.Task[None] | None = None
    _stand_in: str = ""  # what is told where the master's model is not the one that was named

    async def choose_model(self, model: str | None, provider: str | None) -> ModelChoice:
        """Return the master's model: as asked, configured or default, or else a stand-in."""
        wanted, where = self._wanted_model(model)
        self._stand_in = ""
        try:
            choice = await self._choose_named(wanted, where, provider)
        except PrsmError:
            other = None if provider is not None else await self._choose_alike(wanted)
            if other is None:
                raise
            return other
        status = self.parts.providers.statuses.get(choice.provider)
        if provider is None and status is not None and status.logged_in is False:
            return await self._choose_alike(wanted) or choice
        return choice

    def _wanted_model(self, model: str | None) -> tuple[str | None, str]:
        settings = self.parts.config.settings
        leads = self.parts.config.external is None
        key = "master_model" if leads and settings.defaults.master_model else "model"
        wanted = model or getattr(settings.defaults, key)
        where = "" if model else place_of_name(settings, ("defaults", key))
        return wanted, where

    async def _choose_named(
        self, wanted: str | None, where: str, provider: str | None
    ) -> ModelChoice:
        providers, listings = self.parts.providers, self.parts.listings
        named = provider or self.parts.config.settings.defaults.provider
        said = None if wanted is None else self._said_provider(wanted, provider)
        if wanted is not None and said is not None:
            self._resolve(wanted, said, where)  # before anybody is asked whether it is there
        chosen = await providers.choose(said or named, leads=self.parts.config.external is None)
        await listings.check([wanted], chosen)
        return self._resolve(wanted, chosen, where)

    def _said_provider(self, wanted: str, provider: str | None) -> str | None:
        names = self.parts.listings.names
        said = names.provider_of(wanted)
        if said is not None or provider is not None:
            return said
        meant = names.meant(wanted, None)
        return None if meant is None else meant[0]

    async def _choose_alike(self, wanted: str | None) -> ModelChoice | None:
        names, providers = self.parts.listings.names, self.parts.providers
        missing = None if wanted is None else names.meant(wanted, None)
        if wanted is None or missing is None or providers.is_ready(missing[0]):
            return None
        from prsm_core.catalog.selection import build_model_registry  # few providers are gone

        registry = build_model_registry(self.parts.config.settings)
        for model in stand_ins(missing, registry, lambda one: one.provider in providers.names):
            try:
                await providers.choose(model.provider, leads=self.parts.config.external is None)
            except PrsmError:
                continue  # the one that was named is what the person hears of
            if providers.is_ready(model.provider):
                choice = ModelChoice(provider=model.provider, model=model.model_id)
                of = choice.provider, choice.model
                self._stand_in = describe_stand_in(wanted, missing[0], *of, names)
                return choice
        return None

    def _resolve(self, wanted: str | None, provider: str, where: str) -> ModelChoice:
        """Return the model that the user wants; `where` is its place in the settings."""
        base = ModelChoice(provider=provider, model=DEFAULT_MODEL)
        try:
            return resolve_model(wanted, base, self.parts.listings.names)
        except ModelNotAvailableError as error:
            if error.code != UNKNOWN:
                raise
            how = f"`prsm models list` shows all; {ANY_MODEL}"
            message = f"{where}: {error.message}" if where else error.message
            raise ConfigError(message, hint=f"{error.hint}; {how}") from error

    async def survey(
        self, mode: PermissionMode, choice: ModelChoice, labels: Collection[str]
    ) -> list[Notice]:
        """Return the notices before a run's first turn.

        They tell what the leading provider does not enforce, which configured names are wrong as
        far as is known without asking anybody, and which `labels` nothing reads.
        """
        external = self.parts.config.external
        master = choice.provider if external is None else external.name
        shortfalls = await self.parts.enforcement.survey(mode, master, choice.provider)
        wrong, self._doubtful = await look_at_names(self.parts.listings, choice.provider)
        mended = await self.recovered()
        await self.parts.skills.look()
        if self._stand_in:
            mended.append(Notice("warning", self._stand_in))
        return [*mended, *shortfalls, *told_of_names(wrong), *self._unread(labels)]

    def _unread(self, labels: Collection[str]) -> list[Notice]:
        if not labels:
            return []
        from prsm_core.engine.agents.labelling import tell_unread  # few runs have labels

        config = self.parts.config
        specs: tuple[ProviderSpec | ToolContribution | EventSinkSpec, ...]
        specs = (*config.providers.values(), *config.tools.added, *config.sinks)
        return tell_unread(labels, specs, config.checks)

    async def look_for_skills(self, state: SessionState) -> list[Notice]:
        """Look for skills as a run continues; tell why its agents know fewer than before."""
        await self.parts.skills.look()
        living = (now.agent for now in state.agents if not now.agent.state.is_terminal)
        withheld = self.parts.skills.withheld(agent.system_prompt for agent in living)
        return [Notice("warning", withheld)] if withheld else []

    async def recovered(self) -> list[Notice]:
        """Finish an interrupted restore of files or worktrees; return what was done.

        Raises PrsmError if it can neither be finished nor undone: nobody may work on files that are
        neither old nor new.
        """
        return [Notice("warning", text) for text in await self.parts.files.recover(Path(self.cwd))]

    def begin_naming(
        self,
        master: AgentRecord,
        own: ModelChoice,
        write: Callable[[SessionNamed], Awaitable[None]],
        *,
        is_first: bool,
    ) -> None:
        """Have a model name the session in its first run, if the settings want it."""
        if self.parts.config.settings.sessions.auto_name != "model" or not is_first:
            return
        from prsm_core.engine.agents.side_query import Naming  # few sessions

        naming = Naming(master, own, self.parts.contexts, write)
        task = self.parts.background.start(naming.run(), name="naming the session")
        self._naming = naming, task

    def begin_checking(self, master: AgentRecord) -> None:
        """Ask providers for the models in the settings, and report wrong ones."""
        names, self._doubtful = self._doubtful, ()
        if names:
            work = self._check_names(names, master.agent_id)
            self._checking = self.parts.background.start(work, name="models of the settings")

    async def _check_names(self, names: Sequence[SetName], agent_id: str) -> None:
        listings = self.parts.listings
        sought = (listings.names.sought(name.text, name.base or "") for name in names)
        providers = {place[0] for place in sought if place is not None}
        usable = await self.parts.enforcement.usable(providers & self.parts.providers.names)
        await ask_for(names, listings, only=usable)
        for notice in told_of_names(judge_names(names, listings)):
            self.parts.journal.note("notice", agent_id, **notice.to_dict())

    def leave(self) -> None:
        """Stop naming and checking: the run ends and does not wait."""
        if self._checking is not None:
            self._checking.cancel()
        if self._naming is not None:
            naming, task = self._naming
            naming.is_left = True
            task.cancel()

    def task(
        self, said: str, images: Sequence[str], choice: ModelChoice
    ) -> AbstractAsyncContextManager[KeptText]:
        """Yield the text that is kept of a task; see `UserPrompts.text`."""
        external = self.parts.config.external
        provider = choice.provider if external is None else external.name
        return self.parts.user_prompts.text(said, images, provider, self.cwd)

    def going_on(self) -> AbstractAsyncContextManager[None]:
        """Take a snapshot of the files as a run continues."""
        return self.parts.files.before("the run is gone on with", self.cwd, None)

    @property
    def cwd(self) -> str:
        """The folder in which masters work."""
        return default_cwd(self.parts.config.settings, self.parts.config.workspace)

    def writes(
        self, task: KeptText, told: Sequence[Notice], options: Mapping[str, Any]
    ) -> list[Write]:
        """Return the writes of a run that begins, before its master."""
        config, engine = self.parts.config, own_process()
        said = [Told(kind=kind, data=fields) for kind, fields in config.told_at_start]
        said += notices(told)
        started = RunStarted(
            task=task.text, workspace=config.workspace, engine=engine, options=options
        )
        return [started, *said, *task.notices]

    def options(self, timeout_s: float | None) -> dict[str, Any]:
        """Return the options that a resume of the run falls back to."""
        given = {"timeout_s": timeout_s, "command_line": self.parts.config.command_line}
        return {name: value for name, value in given.items() if value}

    def told_of_mode(self, mode: PermissionMode, master: AgentDescriptor) -> list[Notice]:
        """Return a notice if mode bypass does not let the master write."""
        if mode is not PermissionMode.BYPASS or self.parts.config.external is not None:
            return []
        return [] if master.is_solo else [Notice("info", ONLY_READS)]

    async def choose_tools(
        self, given: frozenset[str] | None, labels: Mapping[str, str]
    ) -> tuple[frozenset[str] | None, list[Notice]]:
        """Return the master's tools, None for one that only reads, and notices on them.

        It has all tools if the settings or the labels make it work itself. A client outside has its
        own.
        """
        config = self.parts.config
        if given is not None or config.external is not None:
            return given, []
        if config.settings.engine.master == "solo":
            return NATIVE_TOOLS, []
        if not (labels and config.trusted):
            return None, []
        from prsm_core.engine.agents.labelling import ask_checks  # few runs have labels

        is_solo, told = await ask_checks(labels, config.workspace, config.checks)
        return NATIVE_TOOLS if is_solo else None, told

    def plan_master(
        self,
        task: str,
        choice: ModelChoice,
        mode: PermissionMode,
        tools: frozenset[str] | None,
        servers: Mapping[str, McpServer] | None,
        labels: Mapping[str, str],
    ) -> AgentDescriptor:
        """Return the master of a run; one led from outside has no model of ours."""
        settings = self.parts.config.settings
        request = SpawnRequest(prompt=task, role=AgentRole.MASTER)
        descriptor = describe_master(
            task,
            self.parts.planner.identity(None, request),
            workforce=self.parts.workforce(),
            choice=choice,
            mode=mode,
            tools=tools,
            cwd=self.cwd,
            mcp_servers=choose_servers(settings, prompt=task, role=request.role, explicit=servers),
            labels=labels,
        )
        if (external := self.parts.config.external) is None:
            return descriptor
        # It has a prompt of its own: ours only adds which models its children may have, and what
        # it would have run on is for these.
        return replace(
            descriptor,
            provider=external.name,
            model=DEFAULT_MODEL,
            grant=replace(descriptor.grant, model=f"{descriptor.provider}/{descriptor.model}"),
            system_prompt=self.parts.workforce().describe(choice, None),
            mcp_servers={},
        )


def notices(told: Sequence[Notice]) -> list[Told]:
    """Return the writes of notices."""
    return [Told(kind="notice", data=notice.to_dict()) for notice in told]


def own_process() -> tuple[str, int, Any] | None:
    """Return what identifies this process, if its platform can tell."""
    identity = process_identity(os.getpid())
    return None if identity is None else (identity.boot_id, identity.pid, identity.start_time)
