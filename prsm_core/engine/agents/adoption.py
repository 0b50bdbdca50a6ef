"""Agents that ended in an earlier process of the session, taken over from its ledger.

Those alone that have ended: their rows say all that a new life needs. What an agent that was cut
off was about to do is in no row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.engine.state import AgentRecord
from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core.domain.tools import McpServer
    from prsm_core.engine.state import Roster
    from prsm_core.interfaces.store import AgentRow


def last_master(rows: Sequence[AgentRow]) -> AgentRow | None:
    """Return the master that was the last to do anything; None where there was none."""
    masters = [row for row in rows if row.descriptor.parent_id is None]
    return max(masters, key=_last_heard, default=None)


def adopt(
    roster: Roster, rows: Sequence[AgentRow], master: AgentRow, servers: Mapping[str, McpServer]
) -> AgentRecord:
    """Take over an ended master and all agents below it; return its record.

    It gets today's `servers`: the ledger keeps theirs without secrets. No name of the session is
    given again. Raises ConfigError (code `not_ended`) where one of the agents was cut off.
    """
    family = _family(rows, master)
    for row in family:
        if not row.descriptor.state.is_terminal:
            raise ConfigError(
                f"{row.descriptor.name} was cut off in its work by the end of an earlier process",
                hint="go on with that run: prsm resume; or start one, which has its own master",
                code="not_ended",
            )
    roster.taken_names.update(row.descriptor.name for row in rows)
    for row in family:
        roster.adopt(_ended_record(row))
    record = roster.get(master.descriptor.agent_id)
    record.descriptor = replace(record.descriptor, mcp_servers=servers)
    return record


def _family(rows: Sequence[AgentRow], master: AgentRow) -> list[AgentRow]:
    """Return a master and all below it, parents first: rows are in order of creation."""
    known = {master.descriptor.agent_id}
    family = [master]
    for row in rows:
        if row.descriptor.parent_id in known:
            known.add(row.descriptor.agent_id)
            family.append(row)
    return family


def _ended_record(row: AgentRow) -> AgentRecord:
    record = AgentRecord(row.descriptor)
    record.result = row.result
    record.resume_token = row.resume_token
    record.next_turn = row.next_turn
    record.head_turn_id = row.head_turn_id
    record.notes = replace(record.notes, chosen=row.chosen)
    record.end()
    return record


def _last_heard(row: AgentRow) -> float:
    return row.last_event_at or row.descriptor.created_at
