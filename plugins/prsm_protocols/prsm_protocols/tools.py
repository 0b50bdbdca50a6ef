"""The tools of agents under a protocol: what they can call, and what each call does.

A handler first reads pages and asks whom it has to ask. From there to its answer it awaits nothing:
what it decides by the agent's labels, and what it makes of them, is one step with the answer. A
move for which nothing has to be read, kept or asked is answered at once.

An agent stays on its version of a protocol. At its next transition after the files of the trusted
workspace have changed, a person says whether it, or all agents of that version, take the new one.
It is offered only where the agent's state is one of the new version, or that says what it has
become. The word for all is kept in the label of the agent that asked, and in memory for those that
have not made a transition when it ends.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from prsm_core import MessageRoutingError, OrchestrationError, Question, ToolInputError
from prsm_protocols.labels import KEEPS, UPGRADE, changes_to, page_of, pin_of
from prsm_protocols.page import SessionRule
from prsm_protocols.problems import ProtocolError, nearest
from prsm_protocols.validator import Standing, Validator, is_open

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from prsm_core import PeerNow, ToolCall
    from prsm_protocols.compiled import Move, Protocol

MAX_JSON = 16 * 1024  # bytes of a context, or of what is measured
_SESSIONS = {SessionRule.CONTINUE: "continued", SessionRule.RESTART: "restarted"}

ALL, THIS, KEEP = "upgrade all", "upgrade this one", "keep the old one"


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
            standing = await self._validator.begun_soon(
                labels, call.workspace, trusted=call.trusted, now=call.now
            )
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
        newer, labels = upgrade or (None, {})
        guarded = any(protocol and protocol.has_guards for protocol in (was.protocol, newer))
        to, used = call.args.get("to"), call.context_used if guarded else None
        standing = timed = self._validator.timed(was, now)
        changes = dict(labels)
        if newer is not None:
            standing = upgraded(standing, newer, now)
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
    if value is not None and (size := len(json.dumps(value))) > MAX_JSON:
        raise ToolInputError(
            f"{name} has {size} bytes of JSON",
            hint=f"{MAX_JSON} are the most: put the rest into a file and name it",
        )


def told(standing: Standing, used: float | None, was: Standing) -> dict[str, Any]:
    """Return the data of an answer; `was` is where the agent stood as it called."""
    declared = standing.declared
    data: dict[str, Any] = {
        "state": standing.state,
        "protocol": standing.protocol.name,
        "version": standing.protocol.id,
        "moved": (standing.state, standing.protocol.name) != (was.state, was.protocol.name),
        "moves": [_move(each, used) for each in standing.moves],
        "tools": None if declared.tools is None else list(declared.tools),
        "session": _SESSIONS[standing.page.page.session],
    }
    if declared.description:
        data["description"] = declared.description
    if declared.message:
        data["message"] = declared.message
    if declared.within is not None:
        data["within"] = {"seconds": declared.within.seconds, "to": declared.within.to}
    return {**data, **_opened(standing, used)}


def brief(standing: Standing, used: float | None) -> dict[str, Any]:
    """Return what the answers of other tools tell beside what they are about."""
    moves = [each.transition.target for each in standing.moves if is_open(each, used)]
    return {"state": standing.state, "moves": moves, **_opened(standing, used)}


def _move(move: Move, used: float | None) -> dict[str, Any]:
    each = move.transition
    data = {"to": each.target, "when": each.when, "open": is_open(move, used)}
    return data if each.guard is None else {**data, "guard": str(each.guard)}


def _opened(standing: Standing, used: float | None) -> dict[str, list[str]]:
    """Return the moves whose guard holds now, in words, as `opened` if there are any."""
    opened = [
        f"{move.transition.target} is open: {guard}, and {used:.2f} of it is used"
        for move in standing.moves
        if (guard := move.transition.guard) is not None and used is not None and guard.holds(used)
    ]
    return {"opened": opened} if opened else {}


def receiver(standing: Standing, peers: Sequence[PeerNow], sender: str, to: str) -> str:
    """Return the id of an agent by its id or name. Raises MessageRoutingError for any other."""
    others = [peer for peer in peers if peer.agent_id != sender]
    allowed = [peer for peer in others if _is_allowed(standing, peer)]
    hint = f"you may write to: {', '.join(peer.name for peer in allowed) or 'nobody now'}"
    found = next((peer for peer in peers if to in {peer.agent_id, peer.name}), None)
    if found is None:
        near = nearest(to, [peer.name for peer in allowed])
        raise MessageRoutingError(f"no live agent of the run is called {to!r}{near}", hint=hint)
    if found.agent_id == sender:
        raise MessageRoutingError("that is you: a message goes to another agent", hint=hint)
    if found not in allowed:
        name = standing.protocol.name
        raise MessageRoutingError(f"your protocol {name} lets you not write to {to}", hint=hint)
    return found.agent_id


def _is_allowed(standing: Standing, peer: PeerNow) -> bool:
    names = standing.page.page.messages
    return names is None or peer.name in names or page_of(peer.labels, peer.agent_id) in names


class Upgrade(NamedTuple):
    """A newer version for an agent, as a person has decided: None is to keep the old one."""

    protocol: Protocol | None
    labels: dict[str, str]


class Upgrades:
    """Owns what persons have said of newer versions, and asks each once at a time."""

    def __init__(self, validator: Validator) -> None:
        self._validator = validator
        self._for_all: set[tuple[str, str]] = set()  # workspaces, and OLD>NEW of each
        self._asking: dict[tuple[str, str], asyncio.Lock] = {}

    def has_none(self, call: ToolCall, standing: Standing) -> bool:
        """Return whether the files as they are now have no newer version, if that is in memory."""
        if not (standing.is_pinned and call.trusted):
            return False
        try:
            protocols = self._validator.library.current(call.workspace)
        except ProtocolError:
            return False
        newest = None if protocols is None else protocols.get(standing.protocol.name)
        return newest is not None and newest.id == standing.protocol.id

    async def offer(self, call: ToolCall, standing: Standing) -> Upgrade | None:
        """Return what a person says of the newer version, if there is one that fits."""
        newer = await self._newer(call, standing)
        if newer is None or call.labels.get(KEEPS) == newer.hash:
            return None
        pair = f"{standing.protocol.id}>{newer.id}"
        async with self._asking.setdefault((call.workspace, pair), asyncio.Lock()):
            return await self._decided(call, pair, standing, newer)

    async def _newer(self, call: ToolCall, standing: Standing) -> Protocol | None:
        if not standing.is_pinned:
            return None
        name = standing.protocol.name
        try:
            newer = await self._validator.newest_soon(name, call.workspace, trusted=call.trusted)
        except (ProtocolError, OrchestrationError):
            return None  # pages that are wrong, gone or not trusted are no newer version: it stays
        if newer.id == standing.protocol.id or upgraded_state(newer, standing.state) is None:
            return None
        return newer

    async def _decided(
        self, call: ToolCall, pair: str, standing: Standing, newer: Protocol
    ) -> Upgrade:
        said_for_all = any(peer.labels.get(UPGRADE) == pair for peer in call.agents())
        if said_for_all or (call.workspace, pair) in self._for_all:
            return Upgrade(newer, {})
        answer = await call.ask_user(_question(call.agent_name, standing, newer))
        if ALL in answer.choices:
            self._for_all.add((call.workspace, pair))
            return Upgrade(newer, {UPGRADE: pair})
        if THIS in answer.choices:
            return Upgrade(newer, {})
        # Where nobody has answered it stays, and somebody is asked at its next transition.
        return Upgrade(None, {KEEPS: newer.hash} if KEEP in answer.choices else {})


def upgraded(standing: Standing, newer: Protocol, now: float) -> Standing:
    """Return where an agent stands under a newer version, in the state that its own has become."""
    state = upgraded_state(newer, standing.state)
    if state is None:
        raise OrchestrationError(f"{newer.id} has no state {standing.state}", code="no_upgrade")
    since = standing.since if state == standing.state else now
    protocol = newer.led_to(newer.start.home(state))
    return Standing(protocol, state, since, is_pinned=True)


def upgraded_state(newer: Protocol, state: str) -> str | None:
    """Return what a state has become in a newer version, None where it is not said."""
    mapped = dict(newer.start.page.upgrades)
    if state in mapped:
        return mapped[state]
    is_there = state in newer.start.states or newer.start.home(state) != newer.name
    return state if is_there else None


def _question(agent: str, standing: Standing, newer: Protocol) -> Question:
    state = upgraded_state(newer, standing.state)
    return Question(
        text=(
            f"The protocol {newer.name} has changed since {agent} began with it"
            f" ({standing.protocol.hash} is now {newer.hash}). {agent} is in the state"
            f" {standing.state}, and would go on in {state}."
        ),
        options=(ALL, THIS, KEEP),
    )


VALIDATOR = Validator()
_TOOLS = Tools(VALIDATOR)
state_transition = _TOOLS.transition
message_send = _TOOLS.message_send
message_next = _TOOLS.message_next
measure = _TOOLS.measure
