"""Tools that look at children: get_child_history, check_child_status, get_children_status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.record import Record
from prsm_core.engine.turns.call import Reply

if TYPE_CHECKING:
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.journal.views import ConversationStore
    from prsm_core.engine.state import AgentRecord, Roster
    from prsm_core.engine.turns.call import Call


class Observation(Record, frozen=True, kw_only=True):
    """Handles looks at children."""

    roster: Roster
    journal: Journal
    conversations: ConversationStore

    async def get_child_history(self, call: Call) -> Reply:
        """Return a child's conversation, whole or as text and tool names."""
        child = self.roster.resolve(call.args["child_id"], call.record.children)
        await self.journal.flush()
        detail = call.args.get("detail_level", "summary")
        entries = await self.conversations.get_history(child.agent_id, detail)
        return Reply({"entries": entries})

    async def check_child_status(self, call: Call) -> Reply:
        """Return one child's state."""
        return Reply(_status(self.roster.resolve(call.args["child_id"], call.record.children)))

    async def get_children_status(self, call: Call) -> Reply:
        """Return the states of all children, oldest first."""
        children = [self.roster.get(child_id) for child_id in call.record.children]
        return Reply({"children": [_status(child) for child in children]})


def _status(child: AgentRecord) -> dict[str, Any]:
    status = {
        "agent_id": child.agent_id,
        "name": child.descriptor.name,
        "state": child.state.value,
    }
    if child.result is not None:
        status["summary"] = child.result.summary or child.result.error or ""
    return status
