"""What is said to a program: its prompts, and how it is told to use aism.

A prompt ends with an empty line, so that a program knows where; an empty line within is a space.
The first line of each that tells a state is the same sentence always.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_protocols.aism import HELP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HOW = "You act by the command aism: `aism help` says how."
GUIDE = f"""\
# You are run by PRSM

You are an agent. Your protocol says which states there are, and PRSM holds you to it. You move from
state to state, send messages and finish by the command `aism`:

```text
{HELP}```

Read the page of your protocol in the folder that PRSM_PROTOCOLS names. PRSM tells you on stdin
which state you are in. Where nothing says otherwise, do what your state asks for, move on by
`aism state transition`, and end with `aism complete`. While you work for minutes without any of
these, call `aism heartbeat`.
"""


def next_sentence(here: Mapping[str, Any]) -> str:
    """Return what a program is told after a move."""
    return f"You are now in state '{here['state']}'. Follow the {here['protocol']} protocol."


def prompt(*texts: str) -> bytes:
    """Return texts as one prompt."""
    lines = [line or " " for text in texts if text for line in text.splitlines()]
    return "".join(f"{line}\n" for line in (*lines, "")).encode(errors="replace")


def first_prompt(
    name: str,
    here: Mapping[str, Any] | None,
    protocols: str,
    task: str,
    texts: Sequence[str],
) -> bytes:
    """Return the prompt of a start: who it is, how it acts, its task, and what came since."""
    head = [f"You are agent {name}."]
    if here is not None:
        state, protocol = here["state"], here["protocol"]
        head = [
            f"You are agent {name} in state '{state}'. Follow the {protocol} protocol.",
            f"The protocol is the page {protocols}/{protocol}.md.",
        ]
    return prompt(*head, _HOW, f"Your task: {task}", *texts)
