"""The tools of agents under a protocol: what they can call, and what each call does.

A handler first reads pages and asks whom it has to ask. From there to its answer it awaits nothing:
what it decides by the agent's labels, and what it makes of them, is one step with the answer. A
move for which nothing has to be read, kept or asked is answered at once.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from prsm_core import OrchestrationError, ToolInputError
from prsm_protocols.answers import brief, told
from prsm_protocols.labels import changes_to, pin_of
from prsm_protocols.router import receiver
from prsm_protocols.upgrading import Upgrades, upgraded
from prsm_protocols.validator import Validator

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from prsm_core import ToolCall
    from prsm_protocols.compiled import Protocol
    from prsm_protocols.upgrading import Upgrade
    from prsm_protocols.validator import Standing

MAX_JSON = 16 * 1024  # bytes of a context, or of what is measured
_MOST_OF_ONE = 12  # bytes that JSON takes for a character: it is escaped as two halves


class Tools:
    """Answers the calls; owns nothing but its Validator and what persons said of upgrades."""

    def __init__(self, validator: Validator) -> None:
        self._validator = validator
        self._upgrades = Upgrades(validator)

    def transition(self, call: ToolCall) -> Awaitable[Mapping[str, Any]] | Mapping[str, Any]:
        """Return what `state_transition` does: at once, unless it has to wait for something."""
        pin, now = pin_of(call.labels, call.agent_id), call.now
        standing = None if pin is None else self._validator.pinned_now(pin)
        if standing is None or not self._is_at_hand(call, standing, now):
            return self.state_transition(call)
        _small(call.args.get("context"), "context")
        return self._moved(call, standing, None, now)

    async def state_transition(self, call: ToolCall) -> Mapping[str, Any]:
        """Move the agent to a state, or tell it where it is."""
        _small(call.args.get("context"), "context")
        standing = await self._prepared(call)
        asks = call.args.get("to") is None
        upgrade = None if asks else await self._upgrades.offer(call, standing)
        await self._keep_what_follows(call, standing, upgrade)
        return self._moved(call, self._standing(call, standing), upgrade, call.now)

    async def message_send(self, call: ToolCall) -> Mapping[str, Any]:
        """Send another agent a text."""
        standing = self._stand(call, await self._prepared(call))
        to = receiver(standing, call.agents(), call.agent_id, call.args["to"])
        sent = call.send(to, call.args["text"])
        return {"id": sent, **brief(standing, call.context_used)}

    async def message_next(self, call: ToolCall) -> Mapping[str, Any]:
        """Take the oldest message of another agent."""
        found = await call.next_message(call.args.get("seconds", 0))
        standing = self._stand(call, await self._prepared(call))
        message = None
        if found is not None:
            message = {"id": found.message_id, "from": found.name, "text": found.text}
        return {"message": message, **brief(standing, call.context_used)}

    async def measure(self, call: ToolCall) -> Mapping[str, Any]:
        """Take note of a measurement: the event of the call is what the sink reads."""
        _small(call.args.get("data"), "data")
        standing = self._stand(call, await self._prepared(call))
        return {"ok": True, **brief(standing, call.context_used)}

    async def _prepared(self, call: ToolCall) -> Standing:
        """Return where the agent stands, with all that it stands on read and kept."""
        labels = call.labels
        if (pin := pin_of(labels, call.agent_id)) is not None:
            standing = await self._validator.pinned_soon(pin)
        else:
            standing = await self._begun(call, labels)
            await self._keep(standing.protocol)
        timed = self._validator.timed(standing, call.now)
        if timed is not standing:
            await self._keep(timed.protocol)
        return timed

    def _is_at_hand(self, call: ToolCall, standing: Standing, now: float) -> bool:
        """Return whether all that a call needs is in memory, and nobody has to be asked."""
        if standing.overdue(now) is not None:
            return False
        if (to := call.args.get("to")) is None:
            return True
        page = standing.page.home(to)
        return page == standing.protocol.name and self._upgrades.has_none(call, standing)

    async def _begun(self, call: ToolCall, labels: Mapping[str, str]) -> Standing:
        return await self._validator.begun_soon(
            labels, call.workspace, trusted=call.trusted, now=call.now
        )

    async def _keep_what_follows(
        self, call: ToolCall, standing: Standing, upgrade: Upgrade | None
    ) -> None:
        """Keep the versions that an upgrade and a move lead to, before a label names them."""
        if upgrade is not None and upgrade.protocol is not None:
            standing = upgraded(standing, upgrade.protocol, call.now)
            await self._keep(standing.protocol)
        if (to := call.args.get("to")) is not None:
            await self._keep(standing.protocol.led_to(standing.page.home(to)))

    async def _keep(self, protocol: Protocol) -> None:
        if self._validator.kept.find(protocol.id) is None:
            await asyncio.to_thread(self._validator.kept.put, protocol)

    def _standing(self, call: ToolCall, prepared: Standing) -> Standing:
        """Return where the agent stands by its labels as they are now, without awaiting anything.

        It is as it was prepared, unless another call of its has moved it meanwhile.
        """
        pin = pin_of(call.labels, call.agent_id)
        return prepared if pin is None else self._validator.pinned(pin)

    def _stand(self, call: ToolCall, prepared: Standing) -> Standing:
        """Return where the agent stands now, and have its labels say so."""
        was = self._standing(call, prepared)
        standing = self._validator.timed(was, call.now)
        if standing is not was or not was.is_pinned:
            call.relabel(changes_to(standing.pin, call.agent_id, call.labels))
        return standing

    def _moved(
        self, call: ToolCall, was: Standing, upgrade: Upgrade | None, now: float
    ) -> Mapping[str, Any]:
        """Move the agent from where it stands now, without awaiting anything."""
        to, used = call.args.get("to"), _used(call, was, upgrade)
        standing = timed = self._validator.timed(was, now)
        changes: dict[str, str] = {}
        if upgrade is not None:
            changes |= upgrade.labels
            if upgrade.protocol is not None:
                standing = upgraded(standing, upgrade.protocol, now)
        refused: OrchestrationError | None = None
        if to is not None and not (to == standing.state and standing is not was):
            try:
                standing = self._validator.move(standing, to, used, now)
            except OrchestrationError as error:
                if standing is was and not changes:
                    raise
                refused = error
        if standing is not was or not was.is_pinned:
            changes |= changes_to(standing.pin, call.agent_id, call.labels)
        if changes:
            call.relabel(changes)
        return _answer(told(standing, used, was), standing, was, timed, refused)


def _used(call: ToolCall, was: Standing, upgrade: Upgrade | None) -> float | None:
    """Return the share of the context that is used, None where no guard of a page asks for it."""
    newer = None if upgrade is None else upgrade.protocol
    if was.protocol.has_guards or (newer is not None and newer.has_guards):
        return call.context_used
    return None


def _answer(
    data: dict[str, Any],
    standing: Standing,
    was: Standing,
    timed: Standing,
    refused: OrchestrationError | None,
) -> dict[str, Any]:
    if timed is not was:
        data["timed_out"] = was.state
    if was.protocol.name == standing.protocol.name and was.protocol.id != standing.protocol.id:
        data["upgraded"] = standing.protocol.id
    if refused is not None:
        data["refused"] = f"{refused.message} ({refused.hint})"
    return data


def _small(value: Any, name: str) -> None:
    """Raise ToolInputError for a JSON value that is too much to note."""
    if value is None or _MOST_OF_ONE * len(repr(value)) <= MAX_JSON:
        return
    size = len(json.dumps(value).encode())
    if size > MAX_JSON:
        raise ToolInputError(
            f"{name} has {size} bytes of JSON",
            hint=f"{MAX_JSON} are the most: put the rest into a file and name it",
        )


VALIDATOR = Validator()
_TOOLS = Tools(VALIDATOR)
state_transition = _TOOLS.transition
message_send = _TOOLS.message_send
message_next = _TOOLS.message_next
measure = _TOOLS.measure
