"""Who calls a command that acts on PRSM's own files: a person, or what an agent has started.

There is no session here, and so no key: an engine above this process says that it is an agent's,
and so does the mark of one in the environment of this process or of one above it. Engines that go
by other folders and work in another workspace do not matter, so that PRSM can be tried below PRSM.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prsm_core.engine.control.peers import has_own_terminal, identities, sees_own_processes
from prsm_core.engine.control.session_lock import find_owners
from prsm_core.engine.processes.marks import find_marks, place_digests
from prsm_core.engine.processes.table import find_lineage, is_alive
from prsm_core.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prsm_core.config import Paths
    from prsm_core.engine.control.peers import Lineage
    from prsm_core.engine.control.session_lock import Owner


def require_person(what: str, paths: Paths) -> None:
    """Let nobody pass whom an agent may have started; `what` is what they want to do.

    A process that is an engine itself is a person's: its frontend is in it.

    Raises:
        ControlError: this process may be an agent's, or a lock is held by who does not say so.
    """
    why = _why_no_person(paths)
    if why is not None:
        raise ControlError(
            f"{what} is for a person, and this process is not taken for a person's: {why}",
            hint="agents may look: a person does this in a terminal that no agent has opened",
            code="not_a_person",
        )


def _why_no_person(paths: Paths) -> str | None:
    line = find_lineage(os.getpid())
    places = place_digests((*paths.own_folders, *_configured_above(paths)))
    marks = find_marks(line or ())
    if any(not places.isdisjoint(mark.places) for mark in marks):
        return "it has the environment of an engine's agents"
    owners = find_owners(paths.state)
    if not owners:
        return None
    is_seen = line is not None and sees_own_processes()
    if line is None or not is_seen or not all(is_alive(owner.process) for owner in owners):
        return "an engine runs, and it cannot be seen from here whether that has started it"
    return next(filter(None, (_why_below(line, owner) for owner in owners)), None)


def _configured_above(paths: Paths) -> Iterator[Path]:
    """Yield the `.prism` of the workspace, and of each folder around it.

    An engine's workspace is its own whichever home a command is given: a rule that an agent writes
    there, or in a folder of it, would hold in a later run.
    """
    for folder in (paths.workspace, *paths.workspace.parents):
        yield folder / paths.workspace_dir.name


def _why_below(line: Lineage, owner: Owner) -> str | None:
    """Return why a process of this line is taken for an agent's of this engine, None if it is not.

    A client that leads adopts no orphans, so beside one a person must be in a terminal.
    """
    if line[0].identity == owner.process:
        return None
    above = identities(line)
    if owner.process in above:
        return f"the agents of process {owner.process.pid} started it"
    if not above.isdisjoint(owner.leaders):
        return "the client that leads a session started it"
    if owner.leaders and not has_own_terminal(line):
        return "a client leads a session, and this is no process of a terminal of a person"
    return None
