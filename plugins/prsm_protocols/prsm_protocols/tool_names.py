"""The names of tools that a state may list, and those that every state allows."""

from __future__ import annotations

import re

from prsm_core import NATIVE_TOOLS, ORCHESTRATION_TOOLS
from prsm_protocols.page import NOTHING
from prsm_protocols.problems import nearest

TRANSITION = "state_transition"
SEND = "message_send"
NEXT = "message_next"
MEASURE = "measure"
OWN = (TRANSITION, SEND, NEXT, MEASURE)

# Whatever a state lists: how an agent leaves it, says something, hears something, and ends. Who
# could not answer a child, or wait for one, would hold up others by being in a state.
ALWAYS = frozenset(
    {*OWN, "ask_parent", "ask_user", "task_complete", "wait_for_message", "respond_to_child"}
)
# What is one tool for a person: a shell is a shell, whoever runs it.
SAME = {"run_bash": "Bash"}

_KNOWN = sorted(NATIVE_TOOLS | ORCHESTRATION_TOOLS | set(OWN))
_TOOL = re.compile(r"[A-Za-z_][\w.\-]*")
_MOST = 100


def read_tools(text: str) -> tuple[tuple[str, ...] | None, str, list[str]]:
    """Return what `tools:` lists, in order; what is wrong with it, or blank; and what is odd.

    A vendor may have tools of which nobody knows here, so that an unknown name is only odd.
    """
    names = [name.strip() for name in text.split(",")]
    if names == [NOTHING]:
        return (), "", []
    bad = [name for name in names if not _TOOL.fullmatch(name)]
    if bad or len(names) > _MOST:
        what = f"{bad[0][:40]!r} is no name of a tool" if bad else f"these are {len(names)} tools"
        return None, f"{what}; write `tools: Read, Grep`, or `tools: {NOTHING}`", []
    odd = [
        f"no tool {name} is known{nearest(name, _KNOWN)}"
        for name in names
        if name not in _KNOWN and not name.startswith("mcp__")
    ]
    return tuple(sorted(set(names))), "", odd
