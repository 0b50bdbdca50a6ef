"""Tools that look at children and at the budget, and change nothing."""

from __future__ import annotations

from itertools import accumulate
from json import dumps
from typing import TYPE_CHECKING, Any

from prsm_core.domain.record import Record
from prsm_core.engine.journal.views import EntryType
from prsm_core.engine.turns.call import Reply

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.journal.views import ConversationStore
    from prsm_core.engine.spending.budgets import BudgetLedger
    from prsm_core.engine.state import AgentRecord, Roster
    from prsm_core.engine.turns.call import Call

MAX_ARGUMENT = 1000  # characters of a text, where calls are told alone
MAX_CALLS = 48_000  # characters of JSON of all of them: an answer is cut at 64 KiB


class Observation(Record, frozen=True, kw_only=True):
    """Handles looks at children."""

    roster: Roster
    journal: Journal
    conversations: ConversationStore

    async def get_child_history(self, call: Call) -> Reply:
        """Return a child's conversation: whole, as text and tool names, or its calls alone."""
        child = self.roster.resolve(call.args["child_id"], call.record.children)
        await self.journal.flush()
        detail = call.args.get("detail_level", "summary")
        if detail == "calls":  # asked by programs
            entries = await self.conversations.get_history(child.agent_id)
            return Reply(_calls(entries))
        entries = await self.conversations.get_history(child.agent_id, detail)
        return Reply({"entries": entries})

    async def check_child_status(self, call: Call) -> Reply:
        """Return one child's state."""
        return Reply(_status(self.roster.resolve(call.args["child_id"], call.record.children)))

    async def get_children_status(self, call: Call) -> Reply:
        """Return the states of all children, oldest first."""
        children = [self.roster.get(child_id) for child_id in call.record.children]
        return Reply({"children": [_status(child) for child in children]})


def _calls(entries: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return tool and arguments of each call, and how many more there are than an answer holds.

    Of a longer text its beginning alone is told.
    """
    calls = [
        {"tool": entry["tool"], "arguments": _short(entry["arguments"])}
        for entry in entries
        if entry["kind"] == EntryType.TOOL_CALL
    ]
    sizes = accumulate(len(dumps(call)) for call in calls)
    told = sum(size <= MAX_CALLS for size in sizes)
    return {"entries": calls[:told], "left_out": len(calls) - told}


def _short(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value[:MAX_ARGUMENT] for name, value in arguments.items() if isinstance(value, str)
    }


def _status(child: AgentRecord) -> dict[str, Any]:
    status = {
        "agent_id": child.agent_id,
        "name": child.descriptor.name,
        "state": child.state.value,
    }
    if child.result is not None:
        status["summary"] = child.result.summary or child.result.error or ""
    return status


class Spending(Record, frozen=True, kw_only=True):
    """Handles looks at what is left."""

    budgets: BudgetLedger

    async def get_budget(self, call: Call) -> Reply:
        """Return the numbers of the run and of the agent with all below it, by kind.

        What a turn that still runs was told to have used is in them.
        """
        return Reply(self.budgets.report(call.record.agent_id))
