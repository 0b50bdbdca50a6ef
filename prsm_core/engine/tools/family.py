"""Tools that make children, choose their models, ask for advice, and look at what there is."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from json import dumps
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core.catalog.selection import may_fit
from prsm_core.domain.agents import (
    AgentRole,
    AgentState,
    ExpertProfile,
    PermissionMode,
    SpawnRequest,
)
from prsm_core.domain.budgets import Budget
from prsm_core.domain.messages import MessageType
from prsm_core.domain.models import TaskProfile
from prsm_core.domain.record import Record
from prsm_core.engine.journal.views import EntryType
from prsm_core.engine.providers.model_choice import find_recommendable, inherited_model
from prsm_core.engine.providers.model_names import DEFAULT_MODEL
from prsm_core.engine.spawn import configured_servers
from prsm_core.engine.tools.communication import describe_message
from prsm_core.engine.turns.call import Reply
from prsm_core.errors import AgentSpawnError, ExpertNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from prsm_core.config import Settings
    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.ids import Ids
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.notes import ModelChoice
    from prsm_core.domain.tools import McpServer, ToolOutcome
    from prsm_core.domain.turns import Effect
    from prsm_core.domain.writes import CallClosed, EffectNoted
    from prsm_core.engine.agents.manager import AgentManager
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.journal.views import ConversationStore
    from prsm_core.engine.providers.enforcement import Enforcement
    from prsm_core.engine.providers.listings import Listings
    from prsm_core.engine.providers.model_choice import Workforce
    from prsm_core.engine.providers.registry import ProviderRegistry
    from prsm_core.engine.spawn import IdleChildren, Planner
    from prsm_core.engine.spending import BudgetLedger
    from prsm_core.engine.state import AgentRecord, Roster
    from prsm_core.engine.turns.call import Call
    from prsm_core.engine.workspace_files import Trees
    from prsm_core.interfaces.scorer import ModelScorerSpec


LISTING_SECONDS = 8.0  # how long an agent waits for what providers list
LOOK_SECONDS = 8.0  # how long an agent waits to know which providers can start its child
CHILD = "child"  # the effect of a call that makes or takes one
_FROM_CHILD = frozenset({MessageType.TASK_RESULT, MessageType.QUESTION})

_PEER = ExpertProfile(
    expert_id="peer",
    name="peer",
    system_prompt="Another model's agent wants a second opinion. Be frank, and say why.",
)


class Family(Record, frozen=True, kw_only=True):
    """Handles what makes children."""

    agents: AgentManager
    planner: Planner
    roster: Roster
    trees: Trees
    idle: IdleChildren
    listings: Listings
    providers: ProviderRegistry
    enforcement: Enforcement
    budgets: BudgetLedger
    settings: Settings
    ids: Ids

    async def spawn_child(self, call: Call) -> Reply | ToolOutcome:
        """Spawn a child, or give a finished one the task; with wait, return its result."""
        if (known := call.recall(CHILD)) is not None:
            return await self._answer_again(call, known)
        await self._learn_models(call, [call.args])
        since = self.ids.ulid()
        request = self._request(call, call.args)
        plan = self.planner.plan(request)
        fitting = self._pick(request, plan)
        if fitting is not None:
            call.begin()
            noted = note_child(call, fitting, since, reused=True)
            await self._reuse(call, fitting, request, noted)
            return await self._answer(call, fitting, reused=True, since=since)
        child = await self._spawn(call, request, plan, since)
        if call.outcome is not None:  # by the birth itself
            call.spawned_session_label = child.label
            return call.outcome
        return await self._answer(call, child, reused=False, since=since)

    async def spawn_children_parallel(self, call: Call) -> Reply:
        """Spawn several children by one step, all or none; free ones are reused."""
        wanted = call.args["children"]
        made = {n: known for n in range(len(wanted)) if (known := call.recall(_nth(n)))}
        left = [n for n in range(len(wanted)) if n not in made]
        asked = [wanted[n] for n in left]
        await self._learn_models(call, asked)
        chosen = dict(zip(left, self._choose_all(call, asked), strict=True))
        call.begin()
        since = self.ids.ulid()
        new = {child.agent_id: n for n, (child, task) in chosen.items() if task is None}
        free = [
            (child, task, note_child(call, child, since, _nth(n), reused=True))
            for n, (child, task) in reversed(chosen.items())
            if task is not None
        ]

        def note(child: AgentRecord) -> EffectNoted:
            return note_child(call, child, since, _nth(new[child.agent_id]), reused=False)

        try:
            if new:
                born = [self.roster.get(agent_id) for agent_id in new]
                await self.agents.give_trees(born)
                await self.agents.create_agents(born, needs=call.opening, note=note)
            while free:
                await self._reuse(call, *free.pop())
        finally:
            for child, _, _ in free:
                self.idle.put_back(child)
        all_of = {
            n: (recalled_child(self.roster, effect)[0], _is_reused(effect))
            for n, effect in made.items()
        }
        all_of |= {n: (child, task is not None) for n, (child, task) in chosen.items()}
        told = [
            self._described(child, reused=reused) for _, (child, reused) in sorted(all_of.items())
        ]
        return Reply({"children": told})

    async def restart_child(self, call: Call) -> Reply:
        """Give an ended child a further task; its conversation continues."""
        if (known := call.recall(CHILD)) is not None:
            return await self._answer_again(call, known)
        child = self.roster.resolve(call.args["child_id"], call.record.children)
        await call.open()
        since = self.ids.ulid()
        noted = note_child(call, child, since, reused=True)
        await self.agents.restart_agent(child.agent_id, call.args["prompt"], besides=[noted])
        return await self._answer(call, child, reused=True, since=since)

    async def consult_expert(self, call: Call) -> Reply:
        """Spawn an agent with an expert's profile and return its answer, or its question."""
        expert = find_expert(self.settings, call.args["expert_id"])
        if (known := call.recall(CHILD)) is not None:
            return await self._advice_again(call, known, expert=expert.expert_id)
        child, since = await self._spawn_adviser(call, expert)
        return await self._advice(call, child, since, expert=expert.expert_id)

    async def consult_peer(self, call: Call) -> Reply:
        """Ask another model for a second opinion; a thread continues where it stopped."""
        wanted = call.args.get("peer")
        if wanted == "list":
            return Reply({"peers": list(await self._peers(call))})
        if (known := call.recall(CHILD)) is not None:
            name = self.roster.get(known.ref or "").descriptor.name
            return await self._advice_again(call, known, thread_id=name)
        if "thread_id" in call.args:
            child = self._find_thread(call, call.args["thread_id"])
            _check_question(call)
            await call.open()
            since = self.ids.ulid()
            noted = note_child(call, child, since, reused=True)
            await self.agents.restart_agent(child.agent_id, call.args["question"], besides=[noted])
            return await self._advice(call, child, since, thread_id=child.descriptor.name)
        peers = await self._peers(call)
        if not peers or (wanted is not None and wanted not in peers):
            raise AgentSpawnError(
                "there is no peer to ask" if wanted is None else f"there is no peer {wanted!r}",
                hint=f"peers: {', '.join(peers) or 'none; defaults.peer_models names some'}",
                code="unknown_peer",
            )
        child, since = await self._spawn_adviser(call, replace(_PEER, model=wanted or peers[0]))
        return await self._advice(call, child, since, thread_id=child.descriptor.name)

    async def _spawn_adviser(self, call: Call, expert: ExpertProfile) -> tuple[AgentRecord, str]:
        """Spawn an adviser; return it, and a ULID older than all it says."""
        await self._ask_providers(call.record.descriptor, [expert.model])
        _check_question(call)
        request = SpawnRequest(
            prompt=call.args["question"],
            parent_id=call.record.agent_id,
            role=AgentRole.EXPERT,
            model=expert.model,
            mcp_servers=expert.mcp_servers or None,
            expert=expert,
        )
        self.planner.check(request)
        call.begin()
        since = self.ids.ulid()
        child = await self.agents.spawn_agent(
            request,
            needs=call.opening,
            note=lambda child: note_child(call, child, since, reused=False),
        )
        return child, since

    async def _advice_again(self, call: Call, effect: Effect, **about: str) -> Reply:
        child, since = recalled_child(self.roster, effect)
        return await self._advice(call, child, since, **about)

    async def _advice(self, call: Call, child: AgentRecord, since: str, **about: str) -> Reply:
        call.spawned_session_label = child.label
        message = await await_child(call, child, since, AgentState.WAITING_FOR_EXPERT)
        known: dict[str, Any] = {**describe(child, reused=False), **about}
        return Reply(self._with_message(call, child, message, known))

    def _find_thread(self, call: Call, thread_id: str) -> AgentRecord:
        advisers = [
            child
            for child in call.record.children
            if self.roster.get(child).descriptor.role is AgentRole.EXPERT
        ]
        return self.roster.resolve(thread_id, advisers)

    async def _peers(self, call: Call) -> tuple[str, ...]:
        own = call.record.descriptor.provider
        if self.settings.defaults.peers:
            return self.settings.defaults.peers
        others = await self.enforcement.usable(set(self.providers.offered) - {own})
        return tuple(f"{name}/default" for name in others)

    async def _answer_again(self, call: Call, effect: Effect) -> Reply:
        child, since = recalled_child(self.roster, effect)
        return await self._answer(call, child, reused=_is_reused(effect), since=since)

    async def _answer(self, call: Call, child: AgentRecord, *, reused: bool, since: str) -> Reply:
        data = self._described(child, reused=reused)
        call.spawned_session_label = child.label
        if not call.args.get("wait", False):
            return Reply(data)
        message = await await_child(call, child, since, AgentState.WAITING_FOR_CHILD)
        return Reply(self._with_message(call, child, message, data))

    def _with_message(
        self, call: Call, child: AgentRecord, message: RoutedMessage | None, data: dict[str, Any]
    ) -> dict[str, Any]:
        if message is None:
            raise AgentSpawnError(
                f"{child.descriptor.name} has ended and its result was read already",
                hint="check_child_status shows it",
            )
        result = describe_message(call.record, self.roster, message)
        return {**data, "state": child.state.value, "result": result}

    def _described(self, child: AgentRecord, *, reused: bool) -> dict[str, Any]:
        provider = child.descriptor.provider
        budget = self.enforcement.describe_budget(provider, child.agent_id)
        told = describe(child, reused=reused)
        if budget:
            told["note"] = ". ".join(filter(None, (told.get("note"), budget)))
        return told

    async def _ask_providers(self, agent: AgentDescriptor, texts: Iterable[str | None]) -> None:
        names, wanted = self.listings.names, [text for text in texts if text is not None]
        if not wanted:  # nearly always
            return
        await self._learn_refused()
        own = inherited_model(agent, names)
        meant = (names.meant(text, own.provider) for text in wanted)
        said = {place[0] for place in meant if place is not None} - {own.provider}
        usable = await self.enforcement.usable(said.intersection(names.providers)) if said else ()
        if said - set(usable):
            await self.enforcement.look_around(LOOK_SECONDS)
        await self.listings.check(wanted, own.provider)

    async def _learn_models(self, call: Call, children: Sequence[Mapping[str, Any]]) -> None:
        profiles = self.settings.experts
        texts: set[str | None] = set()
        for child in children:
            texts.update((child.get("model"), *child.get("models", ())))
            if (profile := profiles.get(child.get("profile", ""))) is not None:
                texts.add(profile.model)
        if any(child.get("complexity") for child in children):
            await self._learn_refused()
        await self._ask_providers(call.record.descriptor, texts)

    async def _learn_refused(self) -> None:
        if self.settings.permissions.require is not None:
            await self.enforcement.look_around(LOOK_SECONDS)

    def _request(self, call: Call, arguments: Mapping[str, Any]) -> SpawnRequest:
        tools, region = arguments.get("tools"), arguments.get("region")
        mode, depth = arguments.get("mode"), arguments.get("depth")
        if not arguments["prompt"].strip():
            raise AgentSpawnError("a child needs a task", hint="prompt must not be blank")
        profile = self._profile(arguments)
        earlier = None
        if (child := arguments.get("continues")) is not None:
            earlier = self.roster.resolve(child, call.record.children)
        servers = self._mcp_servers(arguments.get("mcp_servers"))
        if servers is None and profile is not None and profile.mcp_servers:
            servers = dict(profile.mcp_servers)
        return SpawnRequest(
            prompt=arguments["prompt"],
            parent_id=call.record.agent_id,
            role=AgentRole(arguments.get("role", "worker")) if profile is None else profile.role,
            expert=profile,
            name=arguments.get("name"),
            tools=None if tools is None else frozenset(tools),
            model=arguments.get("model", None if profile is None else profile.model),
            cwd=arguments.get("cwd"),
            region=None if region is None else tuple(region),
            mcp_servers=servers,
            exclude_plugins=frozenset(
                self._mcp_servers(arguments.get("exclude_mcp_servers")) or ()
            ),
            complexity=arguments.get("complexity"),
            mode=None if mode is None else PermissionMode(mode),
            models=None if (models := arguments.get("models")) is None else frozenset(models),
            depth=None if depth is None else int(depth),  # JSON has 2.0, too
            worktree=arguments.get("worktree", None if profile is None else profile.worktree),
            budget=_budget(arguments.get("budget")),
            labels=arguments.get("labels"),
            continues=None if earlier is None else earlier.agent_id,
        )

    def _profile(self, arguments: Mapping[str, Any]) -> ExpertProfile | None:
        wanted = arguments.get("profile")
        if wanted is None:
            return None
        profiles = self.settings.expert_profiles()
        spawned = {name: p for name, p in profiles.items() if p.role is not AgentRole.EXPERT}
        if wanted not in spawned:
            is_expert = wanted in profiles
            raise AgentSpawnError(
                f"{wanted!r} is an expert" if is_expert else f"there is no profile {wanted!r}",
                hint="consult_expert asks it"
                if is_expert
                else f"profiles: {', '.join(spawned) or 'none are configured'}",
                code="unknown_profile",
            )
        role = spawned[wanted].role
        if arguments.get("role", role.value) != role.value:
            raise AgentSpawnError(f"{wanted!r} is a {role.value}", hint="leave the role out")
        return spawned[wanted]

    def _mcp_servers(self, names: list[str] | None) -> dict[str, McpServer] | None:
        if names is None:
            return None
        known = configured_servers(self.settings)
        unknown = [name for name in names if name not in known]
        if unknown:
            raise AgentSpawnError(
                f"no MCP server is named {', '.join(unknown)}",
                hint=f"configured: {', '.join(sorted(known)) or 'none'}",
                code="unknown_mcp_server",
            )
        return {name: known[name] for name in names}

    def _choose_all(
        self, call: Call, wanted: Sequence[Mapping[str, Any]]
    ) -> list[tuple[AgentRecord, SpawnRequest | None]]:
        """Return new and free children for some tasks; raise with none of them made."""
        requests = [self._request(call, arguments) for arguments in wanted]
        _check_names(requests)
        self.budgets.check_launches(call.record.agent_id, len(requests))
        chosen: list[tuple[AgentRecord, SpawnRequest | None]] = []
        try:
            for request in requests:
                plan = self.planner.plan(request)
                fitting = self._pick(request, plan)
                if fitting is not None:
                    chosen.append((fitting, request))
                else:
                    chosen.append((self.agents.register_agent(plan, request), None))
            new = [child for child, task in chosen if task is None]
            self.planner.check_room(len(new), enlisted=len(new))
        except Exception:
            for child, task in reversed(chosen):
                if task is None:
                    self.agents.discard_agent(child)
                else:
                    self.idle.put_back(child)
            raise
        return chosen

    async def _spawn(
        self, call: Call, request: SpawnRequest, plan: AgentDescriptor, since: str
    ) -> AgentRecord:
        """Return a new child; its birth answers a call that does not wait for it."""

        def answer(child: AgentRecord) -> CallClosed | None:
            return call.answer_now(Reply(self._described(child, reused=False)))

        waits = call.args.get("wait", False)
        if not call.life.is_working or self.trees.is_wanted(request, plan):
            call.begin()  # it is seen meanwhile
        opening = call.opens()
        try:
            return await self.agents.spawn_agent(
                request,
                plan,
                needs=call.opening,
                besides=opening,
                answer=None if waits else answer,
                note=lambda child: note_child(call, child, since, reused=False),
            )
        except Exception:
            call.reopen(opening)  # nothing was written: the refusal is its answer
            raise

    async def _reuse(
        self, call: Call, child: AgentRecord, request: SpawnRequest, noted: EffectNoted
    ) -> None:
        """Give a free child another task; like a new child, it sees nothing else."""
        try:
            await call.land()
            await self.agents.restart_agent(
                child.agent_id, request.prompt, is_fresh=True, besides=[noted]
            )
        except Exception:
            if child.has_ended:  # nothing has come of it
                self.idle.put_back(child)
            raise

    def _pick(self, request: SpawnRequest, plan: AgentDescriptor) -> AgentRecord | None:
        """Take a free child of equal role, folder, model, tools and MCP servers, or None."""
        special = (request.name, request.mcp_servers, request.budget, request.expert)
        of_programs = (request.labels, request.continues)
        if any(wish is not None for wish in (*special, *of_programs)) or self.trees.is_wanted(
            request, plan
        ):
            return None
        if (child := self.idle.pick(plan)) is not None:
            child.stand_in = self.planner.describe_stand_in(request.model, plan)
        return child


def note_child(
    call: Call, child: AgentRecord, since: str, name: str = CHILD, *, reused: bool
) -> EffectNoted:
    """Return the effect that a call made or took a child, whose life began after `since`."""
    told = {"worktree": child.descriptor.cwd} if child.wants_tree else {}
    if child.stand_in:
        told["stand_in"] = child.stand_in
    return call.effect(name, child.agent_id, since=since, reused=reused, **told)


def recalled_child(roster: Roster, effect: Effect) -> tuple[AgentRecord, str]:
    """Return the child of a call made before its engine died, and since when (a ULID)."""
    child, data = roster.get(effect.ref or ""), effect.data or {}
    child.stand_in = data.get("stand_in", "")
    return child, data.get("since", "")


def _nth(number: int) -> str:
    return f"{CHILD}:{number}"


def _is_reused(effect: Effect) -> bool:
    return bool((effect.data or {}).get("reused"))


def await_child(
    call: Call, child: AgentRecord, since: str, state: AgentState
) -> Coroutine[Any, Any, RoutedMessage | None]:
    """Wait for the child's result or question, whichever comes first after `since`."""

    def fits(message: RoutedMessage) -> bool:
        return (
            message.source == child.agent_id
            and message.type in _FROM_CHILD
            and message.message_id > since
        )

    return call.receive_from(child, fits, lambda: child.has_ended, state, child.descriptor.name)


def _named(child: AgentRecord) -> dict[str, Any]:
    name, state = child.descriptor.name, child.state.value
    return {"agent_id": child.agent_id, "name": name, "state": state}


def describe(child: AgentRecord, *, reused: bool) -> dict[str, Any]:
    """Return what a parent is told of a child it was given."""
    told = {**_named(child), "reused": reused}
    if child.stand_in:
        told["note"] = child.stand_in
    return told


def _check_names(requests: Iterable[SpawnRequest]) -> None:
    names = Counter(request.name for request in requests if request.name is not None)
    for name, count in names.items():
        if count > 1:
            raise AgentSpawnError(
                f"two children cannot both be named {name!r}",
                hint="choose other names or leave them out",
            )


def _budget(limits: Mapping[str, float] | None) -> Budget | None:
    if limits is None:
        return None
    whole: dict[str, Any] = {name: int(limit) for name, limit in limits.items()}
    return Budget(**{**whole, "usd": limits.get("usd")})


MAX_ARGUMENT = 1000  # characters of a text, where calls are told alone
MAX_CALLS = 48_000  # characters of JSON of all of them: an answer is cut at 64 KiB


class Observation(Record, frozen=True, kw_only=True):
    """Handles looks at children and budgets."""

    roster: Roster
    journal: Journal
    conversations: ConversationStore
    budgets: BudgetLedger

    async def get_child_history(self, call: Call) -> Reply:
        """Return a child's conversation: whole, as text and tool names, or its calls alone."""
        child = self.roster.resolve(call.args["child_id"], call.record.children)
        await self.journal.flush()
        detail = call.args.get("detail_level", "summary")
        if detail == "calls":  # asked by programs
            return Reply(_calls(await self.conversations.get_history(child.agent_id)))
        return Reply({"entries": await self.conversations.get_history(child.agent_id, detail)})

    async def check_child_status(self, call: Call) -> Reply:
        """Return one child's state."""
        return Reply(_status(self.roster.resolve(call.args["child_id"], call.record.children)))

    async def get_children_status(self, call: Call) -> Reply:
        """Return the states of all children, oldest first."""
        children = [self.roster.get(child_id) for child_id in call.record.children]
        return Reply({"children": [_status(child) for child in children]})

    async def get_budget(self, call: Call) -> Reply:
        """Return what the run, and the agent's subtree, have used and may use."""
        return Reply(self.budgets.report(call.record.agent_id))


def _calls(entries: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    calls = [
        {
            "tool": entry["tool"],
            "arguments": {
                name: value[:MAX_ARGUMENT]
                for name, value in entry["arguments"].items()
                if isinstance(value, str)
            },
        }
        for entry in entries
        if entry["kind"] == EntryType.TOOL_CALL
    ]
    sizes = accumulate(len(dumps(call)) for call in calls)
    told = sum(size <= MAX_CALLS for size in sizes)
    return {"entries": calls[:told], "left_out": len(calls) - told}


def _status(child: AgentRecord) -> dict[str, Any]:
    status = _named(child)
    if child.result is not None:
        status["summary"] = child.result.summary or child.result.error or ""
    return status


def _check_question(call: Call) -> None:
    if not call.args["question"].strip():
        raise AgentSpawnError("there is no question", hint="question must not be blank")


def find_expert(settings: Settings, expert_id: str) -> ExpertProfile:
    """Return an expert's profile; raise ExpertNotFoundError with the known names."""
    profiles = settings.expert_profiles()
    experts = {name: p for name, p in profiles.items() if p.role is AgentRole.EXPERT}
    if expert_id not in experts:
        raise ExpertNotFoundError(
            f"there is no expert {expert_id!r}",
            hint=f"experts: {', '.join(sorted(experts)) or 'none are configured'}",
            code="unknown_expert",
        )
    return experts[expert_id]


class Recommendation(Record, frozen=True, kw_only=True):
    """Handles the choice of a model."""

    settings: Settings
    listings: Listings
    workforce: Callable[[], Workforce]
    enforcement: Enforcement
    scorers: Sequence[ModelScorerSpec]
    journal: Journal

    async def recommend_model(self, call: Call) -> Reply:
        """Return the best models for a task that the caller's child may run on."""
        from prsm_core.catalog.categories import categorize
        from prsm_core.catalog.ranking import RECOMMENDED, rank_models

        description = call.args["task_description"]
        if not description.strip():
            raise AgentSpawnError("there is no task", hint="task_description must not be blank")
        task = TaskProfile(
            description=description,
            category=categorize(description),
            complexity=call.args.get("complexity"),
        )
        await self.enforcement.look_around(LISTING_SECONDS)
        caller, workforce = call.record.descriptor, self.workforce()
        names, granted = self.listings.names, caller.grant.models
        own = inherited_model(caller, names)
        usable = find_recommendable(own, names, granted, self.enforcement.refused)
        ranking = rank_models(usable, task, self.scorers)
        for problem in ranking.problems:
            self.journal.warn(caller.agent_id, problem)
        best = [entry.to_dict() for entry in ranking.models[:RECOMMENDED]]
        offered = best or await self._offered(own, granted, workforce, task.complexity)
        members = self.workforce().members(own, granted)
        told: dict[str, Any] = {
            "category": task.category,
            "models": offered,
            "usable": [member.to_dict() for member in members],
        }
        if call.args.get("regions"):  # asked by programs
            told["beyond_regions"] = self.enforcement.beyond_regions
        if not offered:
            told["hint"] = "no model is known that fits; without one the child gets yours"
        return Reply(told)

    async def _offered(
        self,
        own: ModelChoice,
        granted: frozenset[str] | None,
        workforce: Workforce,
        complexity: str | None,
    ) -> list[dict[str, Any]]:
        from prsm_core.catalog.ranking import offered_models
        from prsm_core.catalog.selection import build_model_registry

        allowed = workforce.allowed(own, granted)
        registry = build_model_registry(self.settings)

        def is_allowed(provider: str, model: str) -> bool:
            is_granted = allowed is None or f"{provider}/{model}" in allowed
            return is_granted and may_fit(registry.get(provider, model), complexity)

        usable = sorted(workforce.usable, key=lambda name: (name != own.provider, name))
        listed = await self.listings.listing(usable, LISTING_SECONDS)
        found = {name: listed[name].models if name in listed else () for name in usable}
        return offered_models(found, DEFAULT_MODEL, is_allowed=is_allowed)
