"""Labels of agents: who may set them, and what a program may ask and do besides."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from prsm_core.domain.turns import Notice
from prsm_core.domain.writes import AgentRelabelled
from prsm_core.engine.guarded.failing import breaks_ledger
from prsm_core.errors import AgentSpawnError, ConfigError, OrchestrationError, PrsmError
from prsm_core.interfaces.provider import ChildNow
from prsm_core.kit.sanitize import sanitize
from prsm_core.plugins.guard import Guest
from prsm_core.plugins.records import WORDS, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.usage import Spent
    from prsm_core.engine.journal.steps import AgentSteps
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.state import AgentRecord, Roster
    from prsm_core.engine.turns.ports import Ends, Life
    from prsm_core.interfaces.permission import PermissionCheckSpec
    from prsm_core.interfaces.provider import ProviderSpec
    from prsm_core.interfaces.sink import EventSinkSpec
    from prsm_core.interfaces.store import AgentRow, Store
    from prsm_core.interfaces.tool import ToolContribution


_PAST_SESSIONS = 20  # whose agents are asked what they used


class Labelling(Struct, eq=False):
    """Changes the labels of agents, and answers programs about their agents and earlier ones."""

    roster: Roster
    steps: AgentSteps
    journal: Journal
    ends: Ends
    store: Store
    # Returns the program that a provider is, by its name; None for a model's.
    program_of: Callable[[str], str | None]
    # Returns what an agent and all below it have used.
    spent_by: Callable[[str], Spent]

    def of_run(
        self, given: Mapping[str, str], known: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Return the labels that a person gives a master, laid over its own; raise ConfigError."""
        if not given:
            return dict(known or {})
        return self._laid(known or {}, given, None, ConfigError)

    @contextmanager
    def laid(
        self, master: AgentRecord, given: Mapping[str, str]
    ) -> Iterator[Sequence[AgentRelabelled]]:
        """Lay labels over a master's while a further run begins; yield what is to be written."""
        known = master.descriptor.labels
        labels = self.of_run(given, known)
        master.descriptor = replace(master.descriptor, labels=labels)
        write = AgentRelabelled(agent_id=master.agent_id, labels=labels)
        try:
            yield () if labels == known else (write,)
        except BaseException:
            master.descriptor = replace(master.descriptor, labels=known)
            raise

    def of_child(
        self, parent: AgentDescriptor, given: Mapping[str, str | None] | None
    ) -> Mapping[str, str]:
        """Return a new child's labels: its parent's, with those laid over that it is given."""
        if given is None:
            return parent.labels
        owner = self.owner_of(parent, AgentSpawnError)
        return self._laid(parent.labels, given, owner, AgentSpawnError)

    def of_tool(
        self, agent: AgentDescriptor, changes: Mapping[str, str | None], prefix: str
    ) -> Mapping[str, str]:
        """Return an agent's labels with those laid over that a plugin's tool sets."""
        labels = self._laid(agent.labels, changes, prefix, OrchestrationError)
        plain = next((name for name in changes if "/" not in name), None)
        if plain is not None:
            own = f"its own begin with {prefix}/" if prefix else "its plugin names no prefix"
            raise OrchestrationError(
                f"the label {plain} is not this tool's to set", hint=own, code="bad_labels"
            )
        return labels

    def _laid(
        self,
        known: Mapping[str, str],
        changes: Mapping[str, str | None],
        owner: str | None,
        error: type[PrsmError],
    ) -> dict[str, str]:
        from prsm_core.domain.labels import relabelled  # few runs have labels

        fit = self.journal.redact(sanitize(changes))
        return relabelled(known, fit, owner=owner, error=error)

    def owner_of(
        self, agent: AgentDescriptor, error: type[OrchestrationError] = OrchestrationError
    ) -> str:
        """Return the program that an agent's provider is; raise `error` where it is none."""
        owner = self.program_of(agent.provider)
        if owner is None:
            raise error(
                f"{agent.name} is of provider {agent.provider}, which is no program",
                hint="labels are set by a person, or by a provider with ProviderSpec.program",
                code="no_program",
            )
        return owner

    async def relabel(
        self, life: Life, changes: Mapping[str, str | None], agent: str | None
    ) -> Mapping[str, str]:
        """Change labels of an agent, or of a child of it; see AgentHost."""
        record = life.record
        if life.is_over:
            raise OrchestrationError(f"{record.descriptor.name} has ended", code="agent_ended")
        owner = self.owner_of(record.descriptor)
        if agent is None or agent in {record.agent_id, record.descriptor.name}:
            target = record
        else:
            target = self.roster.resolve(agent, record.children)
        known = target.descriptor.labels
        labels = self._laid(known, changes, owner, OrchestrationError)
        if labels == known:
            return labels
        target.descriptor = replace(target.descriptor, labels=labels)
        write = AgentRelabelled(agent_id=target.agent_id, labels=labels)
        try:
            await self.steps.write(record, write)
        except Exception as error:
            if not breaks_ledger(error) and target.descriptor.labels is labels:
                target.descriptor = replace(target.descriptor, labels=known)
            raise
        return labels

    def children(self, record: AgentRecord) -> Sequence[ChildNow]:
        """Return an agent's children, oldest first; see AgentHost."""
        return tuple(
            _child(self.roster.get(child), self.spent_by(child)) for child in record.children
        )

    async def end_child(self, life: Life, agent: str, reason: str) -> None:
        """Kill a child of an agent, and all below it; see AgentHost."""
        self.owner_of(life.record.descriptor)
        child = self.roster.resolve(agent, life.record.children)
        if not child.state.is_terminal:
            await self.ends.kill_tree(child, reason)

    async def spent_with_label(self, life: Life, label: str, text: str) -> Sequence[Spent]:
        """Return what agents with a label have used that have ended; see AgentHost."""
        self.owner_of(life.record.descriptor)
        found: list[Spent] = []
        for session in await self.store.sessions_with(label, text, limit=_PAST_SESSIONS):
            found += _spent_by_tops(await self.store.agents(session), label, text)
        return found


def _spent_by_tops(rows: Sequence[AgentRow], label: str, text: str) -> Iterator[Spent]:
    """Yield what those with a label used whose parent has it not, with all below them."""
    below: dict[str | None, list[AgentRow]] = {}
    for row in rows:
        below.setdefault(row.descriptor.parent_id, []).append(row)
    having = {row.descriptor.agent_id for row in rows if row.descriptor.labels.get(label) == text}

    def whole(row: AgentRow) -> Spent:
        return sum(map(whole, below.get(row.descriptor.agent_id, ())), row.spent)

    for row in rows:
        agent = row.descriptor
        if agent.agent_id in having and agent.parent_id not in having and agent.state.is_terminal:
            yield whole(row)


def _child(record: AgentRecord, spent: Spent) -> ChildNow:
    agent = record.descriptor
    return ChildNow(
        agent_id=agent.agent_id,
        name=agent.name,
        role=agent.role,
        state=record.state,
        incarnation=record.incarnation,
        provider=agent.provider,
        model=agent.model,
        cwd=agent.cwd,
        region=agent.grant.region,
        labels=agent.labels,
        result=record.result if record.has_ended else None,
        spent=spent,
    )


_WHAT = "its answer to whether the master is solo"


async def ask_checks(
    labels: Mapping[str, str], workspace: str, checks: Iterable[PermissionCheckSpec]
) -> tuple[bool, list[Notice]]:
    """Return whether any check says so of these labels, and what kept others from an answer."""
    troubles: list[Notice] = []
    for spec in checks:
        if spec.solo is None or spec.labels.isdisjoint(labels):
            continue
        try:
            if await _ask(spec, labels, workspace):
                return True, troubles
        except PrsmError as error:
            troubles.append(Notice("warning", f"the master only delegates: {error.message}"))
    return False, troubles


async def _ask(spec: PermissionCheckSpec, labels: Mapping[str, str], workspace: str) -> bool:
    guest = Guest(WORDS[type(spec)], spec.name, spec.solo)
    ask = partial(guest.load(), dict(labels), workspace)
    answer = await guest.asked(spec.timeout, _WHAT, ask, (PrsmError,))
    if not isinstance(answer, bool):
        what = f"it gave a {type(answer).__name__}, which is neither True nor False"
        raise guest.wrong(_WHAT, what)
    return answer


def tell_unread(
    labels: Iterable[str],
    specs: Iterable[ProviderSpec | ToolContribution | EventSinkSpec],
    checks: Iterable[PermissionCheckSpec],
) -> list[Notice]:
    """Return one warning on the names of labels that no active plugin declares to read.

    One that is like a name that is read is told in each run. Others may be a person's own notes,
    and are to be shown once.
    """
    names = (*(spec.reads_labels for spec in specs), *(check.labels for check in checks))
    read = sorted(name for name in set(chain.from_iterable(names)) if "/" not in name)
    unread = {name: nearest(name, read) for name in sorted(set(labels).difference(read))}
    if not unread:
        return []
    listed = ", ".join(f"{name}{_meant(near)}" for name, near in unread.items())
    text = f"no active plugin says that it reads the label{'s' * (len(unread) > 1)} {listed}"
    return [Notice("warning", text, once=not any(unread.values()))]


def _meant(near: str | None) -> str:
    return f" (did you mean {near}?)" if near else ""
