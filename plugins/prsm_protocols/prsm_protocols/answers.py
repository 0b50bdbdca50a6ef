"""What each answer tells an agent: its state, what it may do there, and which moves are open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_protocols.page import SessionRule
from prsm_protocols.validator import is_open

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prsm_protocols.compiled import Move
    from prsm_protocols.validator import Standing

_SESSIONS = {SessionRule.CONTINUE: "continued", SessionRule.RESTART: "restarted"}


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
    if opened := list(_opened(standing, used)):
        data["opened"] = opened
    return data


def brief(standing: Standing, used: float | None) -> dict[str, Any]:
    """Return what the answers of other tools tell beside what they are about."""
    data: dict[str, Any] = {
        "state": standing.state,
        "moves": [each.transition.target for each in standing.moves if is_open(each, used)],
    }
    if opened := list(_opened(standing, used)):
        data["opened"] = opened
    return data


def _move(move: Move, used: float | None) -> dict[str, Any]:
    each = move.transition
    told = {"to": each.target, "when": each.when, "open": is_open(move, used)}
    return told if each.guard is None else {**told, "guard": str(each.guard)}


def _opened(standing: Standing, used: float | None) -> Iterator[str]:
    """Yield the moves whose guard holds now, in words."""
    for move in standing.moves:
        guard = move.transition.guard
        if guard is not None and used is not None and guard.holds(used):
            yield f"{move.transition.target} is open: {guard}, and {used:.2f} of it is used"
