"""The Router: to which agents of the run an agent may write, by its protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import MessageRoutingError
from prsm_protocols.labels import page_of
from prsm_protocols.problems import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core import PeerNow
    from prsm_protocols.validator import Standing


def receiver(standing: Standing, peers: Sequence[PeerNow], sender: str, to: str) -> str:
    """Return the id of the agent that a message goes to, by its id or its name.

    Raises MessageRoutingError, whose hint names those that may be written to.
    """
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
