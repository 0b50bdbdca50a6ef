"""Labels of agents: who may set and read them."""

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
from prsm_core.kit.sanitize import sanitize
from prsm_core.plugins.guard import Guest
from prsm_core.plugins.records import WORDS, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.engine.journal.unit import AgentSteps, Journal
    from prsm_core.engine.state import AgentRecord, Roster
    from prsm_core.engine.turns.ports import Life
    from prsm_core.interfaces.permission import PermissionCheckSpec
    from prsm_core.interfaces.provider import ProviderSpec
    from prsm_core.interfaces.sink import EventSinkSpec
    from prsm_core.interfaces.tool import ToolContribution


class Labelling(Struct, eq=False):
    """Computes and changes the labels of agents."""

    roster: Roster
    steps: AgentSteps
    journal: Journal
    # Returns the program that a provider is, by its name; None for a model's.
    program_of: Callable[[str], str | None]

    def of_run(
        self, given: Mapping[str, str], known: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Return a master's labels after a person's changes. Raises ConfigError."""
        if not given:
            return dict(known or {})
        return self._laid(known or {}, given, None, ConfigError)

    @contextmanager
    def laid(
        self, master: AgentRecord, given: Mapping[str, str]
    ) -> Iterator[Sequence[AgentRelabelled]]:
        """Change a master's labels while a further run begins; yield the writes."""
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
        """Return a new child's labels: its parent's, with the `given` changes."""
        if given is None:
            return parent.labels
        owner = self.owner_of(parent, AgentSpawnError)
        return self._laid(parent.labels, given, owner, AgentSpawnError)

    def of_tool(
        self, agent: AgentDescriptor, changes: Mapping[str, str | None], prefix: str
    ) -> Mapping[str, str]:
        """Return an agent's labels after changes by a plugin's tool."""
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

        return relabelled(known, self.journal.redact(sanitize(changes)), owner=owner, error=error)

    def owner_of(
        self, agent: AgentDescriptor, error: type[OrchestrationError] = OrchestrationError
    ) -> str:
        """Return the program that an agent's provider is; raise `error` if it is none."""
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
        """Change labels of an agent or its child; see AgentHost."""
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


_WHAT = "its answer to whether the master is solo"


async def ask_checks(
    labels: Mapping[str, str], workspace: str, checks: Iterable[PermissionCheckSpec]
) -> tuple[bool, list[Notice]]:
    """Return whether any check says yes to these labels, and the troubles of others."""
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
    """Return one warning about labels that no active plugin reads.

    A likely misspelling is reported in each run. Other labels may be a person's own notes, and are
    reported once.
    """
    names = (*(spec.reads_labels for spec in specs), *(check.labels for check in checks))
    read = sorted(name for name in set(chain.from_iterable(names)) if "/" not in name)
    unread = {name: nearest(name, read) for name in sorted(set(labels).difference(read))}
    if not unread:
        return []
    meant = (f"{name} (did you mean {near}?)" if near else name for name, near in unread.items())
    label = "labels" if len(unread) > 1 else "label"
    text = f"no active plugin says that it reads the {label} {', '.join(meant)}"
    return [Notice("warning", text, once=not any(unread.values()))]
