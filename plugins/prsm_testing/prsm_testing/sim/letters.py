"""Two tools by which agents write to each other, as a plugin would add them; for plays alone."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from prsm_core.domain.agents import AgentRole
from prsm_core.domain.record import Record
from prsm_core.domain.structs import json_schema
from prsm_core.domain.tools import ToolSpec
from prsm_core.engine.tools.table import TOOLS, Tool, ToolTable
from prsm_core.engine.turns.call import Reply

if TYPE_CHECKING:
    from msgspec import Struct

    from prsm_core.engine.tools.mail import Mail
    from prsm_core.engine.turns.call import Call

ALL = frozenset(role.value for role in AgentRole)
WORKERS = frozenset({AgentRole.WORKER.value})


def takers(seed: int) -> frozenset[str] | None:
    """Return the roles that take messages themselves in the run of a seed; None: nobody writes.

    It is drawn apart, so that a run without letters is what it was without this.
    """
    dice = random.Random(f"{seed} letters")  # noqa: S311 - a schedule, no secret
    return dice.choice((None, None, frozenset(), WORKERS))


class _Letter(Record, frozen=True, forbid_unknown_fields=True):
    to: str | UnsetType = UNSET
    text: str | UnsetType = UNSET


class _NextLetter(Record, frozen=True, forbid_unknown_fields=True):
    seconds: float | UnsetType = UNSET


def _tool(name: str, arguments: type[Struct], roles: frozenset[str], **about: Any) -> Tool:
    schema = json_schema(arguments)
    spec = ToolSpec(name=name, description=name, input_schema=schema, roles=roles)
    return Tool(spec=spec, arguments=arguments, **about)


class PeerTools:
    """Owns `message_send` and `message_next`, once it has the mail of an engine."""

    mail: Mail

    async def message_send(self, call: Call) -> Reply:
        """Write to another agent; the message is in the step of the answer."""
        if (sent := call.recall("message")) is not None:
            return Reply({"id": sent.ref})
        message = self.mail.message(call.record, call.args["to"], call.args["text"])
        reply = Reply({"id": message.message_id})
        await call.open(message, reply=reply, noted=call.effect("message", message.message_id))
        return reply

    async def message_next(self, call: Call) -> Reply:
        """Take the oldest message of a peer."""
        message = await self.mail.next(call, call.args.get("seconds"))
        told = message and {"id": message.message_id, "from": message.name, "text": message.text}
        return Reply({"message": told})

    def table(
        self,
        *,
        takes: frozenset[str] = frozenset(),
        sends: frozenset[str] = ALL,
        nexts: frozenset[str] = ALL,
    ) -> ToolTable:
        """Return a table with them: roles of `takes` take messages themselves."""
        tools = [
            _tool("message_send", _Letter, sends, sends_messages=True),
            _tool("message_next", _NextLetter, nexts - takes),
            _tool("message_next", _NextLetter, takes, takes_messages=True),
        ]
        handlers = {"message_send": self.message_send, "message_next": self.message_next}
        return ToolTable((*TOOLS, *tools), handlers)
