"""To whom what is typed goes, how, and by which model: the line above the prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from prsm_core.kit import escape_exact

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prsm_tui.keys import Keymap
    from prsm_tui.model.session import Session

_BETWEEN = " · "


def to_whom(
    session: Session, chosen: str | None, delivery: str, keymap: Keymap, *, is_one_of_many: bool
) -> Sequence[str]:
    """Return it in words, the most important first.

    `is_one_of_many`: whole sessions can be gone on with.
    """
    return list(_parts(session, chosen, delivery, keymap, is_one_of_many=is_one_of_many))


def fitting(parts: Sequence[str], width: int) -> str:
    """Return as many parts as fit into a row of so many cells; the first at any rate."""
    line = parts[0]
    for part in parts[1:]:
        if cell_len(line) + len(_BETWEEN) + cell_len(part) > width:
            break
        line = f"{line}{_BETWEEN}{part}"
    return line


def _parts(
    session: Session, chosen: str | None, delivery: str, keymap: Keymap, *, is_one_of_many: bool
) -> Iterator[str]:
    agent, run, master = session.agents.get(chosen or ""), session.run, session.master()
    if run is not None and run.status == "interrupted" and is_one_of_many:
        yield "the run was cut off or ended: /resume goes on with the run"
        return
    if agent is not None and agent.is_live:
        yield f"to {agent.name} ({agent.models})"
        yield f"{delivery} ({keymap.shown('prompt.delivery')})"
    elif agent is not None and agent is not master:
        yield f"{agent.name} has ended: /restart TEXT starts it again"
        return
    elif run is not None and run.is_open:
        yield "a run is open: choose an agent to talk to"
        return
    elif master is not None:
        yield f"to {'the master' if agent is None else agent.name} ({master.models})"
        yield "as a further task"
    elif session.next_model:
        yield f"a task for a master of {escape_exact(session.next_model)}"
        yield "/model default takes that back"
    else:
        yield "a task, with which a run begins"
        yield f"model: {session.asked_model or 'as configured'} (/model)"
    if session.images:
        yield f"images: {len(session.images)} (/attach)"
    yield f"{keymap.shown('prompt.send')} sends"
    yield f"{keymap.first('prompt.new_line') or 'none'}: a new line"
