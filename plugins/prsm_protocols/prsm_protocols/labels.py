"""What the labels of an agent say of its protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_protocols.page import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "protocols"  # of the labels that this plugin alone sets
CHOSEN = "protocol"  # the name of a protocol, a person's or a program's to set
PROTOCOL = f"{PREFIX}/protocol"  # NAME@ and the digits of its hash
STATE = f"{PREFIX}/state"
SINCE = f"{PREFIX}/since"  # when it came to that state, in Unix seconds
AGENT = f"{PREFIX}/agent"  # the agent that this is said of: a child is born with its parent's
KEEPS = f"{PREFIX}/keeps"  # the digits of a newer version that a person did not want for it
UPGRADE = f"{PREFIX}/upgrade"  # OLD>NEW, two ids: a person wants it for all agents


class Pin(Record, frozen=True):
    """Which version of a protocol an agent is held to, and where in it the agent is."""

    protocol: str  # NAME@ and digits
    state: str
    since: float

    @property
    def name(self) -> str:
        """The name of the protocol."""
        return self.protocol.rpartition("@")[0]


def is_under_protocol(labels: Mapping[str, str]) -> bool:
    """Return whether agents of these labels are held to a protocol."""
    return CHOSEN in labels or PROTOCOL in labels


def pin_of(labels: Mapping[str, str], agent_id: str) -> Pin | None:
    """Return the pin of an agent, None where it has made no call yet."""
    if labels.get(AGENT) != agent_id or PROTOCOL not in labels or STATE not in labels:
        return None
    since = labels.get(SINCE, "0")
    return Pin(protocol=labels[PROTOCOL], state=labels[STATE], since=_seconds(since))


def chosen(labels: Mapping[str, str]) -> str:
    """Return the name of the protocol that an agent without a pin begins with."""
    inherited = labels.get(PROTOCOL, "").rpartition("@")[0]
    return labels.get(CHOSEN, inherited).strip()


def page_of(labels: Mapping[str, str], agent_id: str) -> str:
    """Return the name of the protocol that an agent is under now, blank for none."""
    pin = pin_of(labels, agent_id)
    return chosen(labels) if pin is None else pin.name


def changes_to(pin: Pin, agent_id: str, labels: Mapping[str, str]) -> dict[str, str]:
    """Return the changes of an agent's labels by which it has a pin."""
    told = {
        PROTOCOL: pin.protocol,
        STATE: pin.state,
        SINCE: f"{pin.since:.0f}",
        AGENT: agent_id,
    }
    return {name: text for name, text in told.items() if labels.get(name) != text}


def _seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() else 0.0
