"""To whom what is typed goes, and how: the line above the prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prsm_tui.keys import Keymap
    from prsm_tui.model.session import Session


def to_whom(
    session: Session, chosen: str | None, delivery: str, keymap: Keymap, *, is_one_of_many: bool
) -> str:
    """Return it in words; `is_one_of_many`: whole sessions can be gone on with."""
    agent, run = session.agents.get(chosen or ""), session.run
    if run is not None and run.status == "interrupted" and is_one_of_many:
        return "the run was cut off or ended: /resume goes on with the run"
    if agent is not None and agent.is_live:
        key = keymap.shown("prompt.delivery")
        return f"to {agent.name} · {delivery} ({key}) · {_how_sent(keymap)}"
    if agent is not None and agent is not session.master():
        return f"{agent.name} has ended: /restart TEXT starts it again"
    if run is not None and run.is_open:
        return "a run is open: choose an agent to talk to"
    if session.next_model:
        return f"a task for a new master of {session.next_model} · {_how_sent(keymap)}"
    if agent is None and session.master() is not None:
        return f"to the master, as a further task · {_how_sent(keymap)}"
    if agent is not None:
        return f"to {agent.name}, as a further task · {_how_sent(keymap)}"
    return f"a task, with which a run begins · {_how_sent(keymap)}"


def _how_sent(keymap: Keymap) -> str:
    new_line = keymap.first("prompt.new_line") or "none"
    return f"{keymap.shown('prompt.send')} sends, {new_line}: a new line"
