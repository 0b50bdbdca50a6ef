"""The Validator: where an agent stands in its protocol, and whether it may move.

It decides, and keeps nothing of agents: what it goes by are their labels, the kept pages and the
time, in Unix seconds. It never says where to go.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from prsm_core import InvalidTransitionError, OrchestrationError
from prsm_protocols.compiled import WITHIN
from prsm_protocols.kept import Kept
from prsm_protocols.labels import Pin, chosen
from prsm_protocols.library import Library
from prsm_protocols.problems import nearest
from prsm_protocols.tool_names import ALWAYS, TRANSITION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_protocols.compiled import Compiled, Move, Protocol
    from prsm_protocols.page import State, Within


class Standing:
    """Where an agent stands: a state, of a page, of a version; and since when."""

    def __init__(self, protocol: Protocol, state: str, since: float, *, is_pinned: bool) -> None:
        self.protocol = protocol
        self.state = state
        self.since = since
        self.is_pinned = is_pinned  # False: it has made no call, and nothing of it is written
        self.page: Compiled = protocol.start  # which its state stands on
        self.declared: State = self.page.states[state]  # what that says of it

    @property
    def moves(self) -> Sequence[Move]:
        """The transitions that leave its state."""
        return self.page.moves(self.state)

    @property
    def pin(self) -> Pin:
        """What the labels say of it once it is pinned."""
        return Pin(protocol=self.protocol.id, state=self.state, since=self.since)

    def overdue(self, now: float) -> Within | None:
        """Return the time limit of its state, if that is over."""
        within = self.declared.within
        return within if within is not None and now >= self.since + within.seconds else None

    def at(self, state: str, now: float) -> Standing:
        """Return where it stands after a move to a state."""
        protocol = self.protocol.led_to(self.page.home(state))
        return Standing(protocol, state, now, is_pinned=self.is_pinned)


class Validator:
    """Decides about moves and tools; owns what it has read of pages."""

    def __init__(self, library: Library | None = None, kept: Kept | None = None) -> None:
        self.library = library or Library()
        self.kept = kept or Kept()

    def pinned(self, pin: Pin) -> Standing:
        """Return where an agent with a pin stands; may block. Raises OrchestrationError."""
        return _pinned(pin, self.kept.get(pin.protocol))

    def pinned_now(self, pin: Pin) -> Standing | None:
        """Return what `pinned` does, None where that would have to be read."""
        protocol = self.kept.find(pin.protocol)
        return None if protocol is None else _pinned(pin, protocol)

    async def pinned_soon(self, pin: Pin) -> Standing:
        """Return what `pinned` does; a thread reads what is not in memory."""
        standing = self.pinned_now(pin)
        return await asyncio.to_thread(self.pinned, pin) if standing is None else standing

    async def begun_soon(
        self, labels: Mapping[str, str], workspace: str, *, trusted: bool, now: float
    ) -> Standing:
        """Return where an agent without a pin stands: at the beginning of what it is to follow.

        Raises ProtocolError or OrchestrationError where that cannot be told.
        """
        protocol = await self.newest_soon(chosen(labels), workspace, trusted=trusted)
        return Standing(protocol, protocol.start.page.initial, now, is_pinned=False)

    async def newest_soon(self, name: str, workspace: str, *, trusted: bool) -> Protocol:
        """Return a protocol as the files of a trusted workspace have it; a thread reads it."""
        if not trusted:
            raise OrchestrationError(
                f"the protocol {name} is not read: the workspace is not trusted",
                hint="ask the person to run `prsm trust` here, or to leave the label out",
                code="protocol_untrusted",
            )
        protocols = self.library.current(workspace)
        if protocols is None:
            protocols = await asyncio.to_thread(self.library.read, workspace)
        if (found := protocols.get(name)) is None:
            known = ", ".join(protocols.names) or "none"
            raise OrchestrationError(
                f"there is no protocol {name!r} in .prism/protocols"
                f"{nearest(name, protocols.names)}",
                hint=f"protocols here: {known}; the label `protocol` names one",
                code="protocol_unknown",
            )
        return found

    def timed(self, standing: Standing, now: float) -> Standing:
        """Return where an agent stands once its time limits are minded; each is counted anew."""
        within = standing.overdue(now)
        if within is None:
            return standing
        standing.page.machine.validate(standing.state, within.to, trigger=WITHIN)
        return standing.at(within.to, now)

    def move(self, standing: Standing, to: str, used: float | None, now: float) -> Standing:
        """Return where a move leads now; `used` is the share of the context that is used.

        Raises OrchestrationError, whose hint names the moves that are open.
        """
        if to == standing.state:
            raise refusal(f"you are in the state {to} already; nothing has changed", standing, used)
        try:
            move = standing.page.find(standing.state, to)
        except InvalidTransitionError as error:
            near = nearest(to, [each.transition.target for each in standing.moves])
            raise refusal(
                f"no transition leads from {standing.state} to {to!r}{near}", standing, used
            ) from error
        if not is_open(move, used):
            is_now = "not known yet" if used is None else f"{used:.2f}"
            raise refusal(
                f"the transition to {to} is shut: it needs {move.transition.guard}, and the share"
                f" of your context that is used is {is_now}",
                standing,
                used,
            )
        return standing.at(to, now)

    def denial(self, standing: Standing, tool: str, now: float) -> str | None:
        """Return why an agent may not call a tool where it stands, None where it may."""
        if tool in ALWAYS:
            return None
        if standing.declared.within is not None and (within := standing.overdue(now)):
            return (
                f"your time in the state {standing.state} is over: you are to be in {within.to}."
                f' Call {TRANSITION}(to="{within.to}") first.'
            )
        if standing.page.allows(standing.state, tool):
            return None
        tools = ", ".join(standing.declared.tools or ()) or "no tool"
        return (
            f"{tool} is not for the state {standing.state!r} of your protocol"
            f" {standing.protocol.name}, which allows {tools}. {_way_to(standing, tool)}"
        )


def is_open(move: Move, used: float | None) -> bool:
    """Return whether a move may be made; one with a guard needs to know the share."""
    guard = move.transition.guard
    return guard is None or (used is not None and guard.holds(used))


def refusal(text: str, standing: Standing, used: float | None) -> OrchestrationError:
    """Return the error of a move that is not made, with those that can be."""
    ways = [each.transition.target for each in standing.moves if is_open(each, used)]
    hint = f"open from {standing.state}: {', '.join(ways)}" if ways else "no move is open now"
    return OrchestrationError(text, hint=hint, code="no_transition")


def _way_to(standing: Standing, tool: str) -> str:
    """Return the shortest way to a state that allows a tool, for the agent."""
    first: dict[tuple[str, str], Move] = {}
    todo = [(standing.page, standing.state)]
    while todo:
        page, state = todo.pop(0)
        for move in page.moves(state):
            target = standing.protocol.pages[move.page]
            key = (move.page, move.transition.target)
            if key in first:
                continue
            first[key] = first.get((page.page.name, state), move)
            if target.allows(key[1], tool):
                return _told_way(first[key], key[1])
            todo.append((target, key[1]))
    return "No transition leads to a state that allows it."


def _told_way(first: Move, goal: str) -> str:
    step = first.transition
    call = f'{TRANSITION}(to="{step.target}")'
    way = f"{call} leads to a state that allows it"
    if step.target != goal:
        way = f"The state {goal} allows it; the first move there is {call}"
    when = f": {step.when.rstrip('.')}" if step.when else ""
    guard = f" It needs {step.guard}." if step.guard is not None else ""
    return f"{way}{when}.{guard}"


def _pinned(pin: Pin, protocol: Protocol) -> Standing:
    if pin.state in protocol.start.states:
        return Standing(protocol, pin.state, pin.since, is_pinned=True)
    raise OrchestrationError(
        f"the protocol {pin.protocol} has no state {pin.state}",
        hint="ask the person: the label of the agent was made by another version of the plugin",
        code="protocol_lost",
    )
