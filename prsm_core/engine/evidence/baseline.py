"""What git knew of some files before an agent began: where no change of them is known."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.engine.processes.shell import run_captured
from prsm_core.workspace.identity import repo_identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.engine.processes.launcher import ProcessLauncher
    from prsm_core.interfaces.clock import Clock
    from prsm_core.workspace.artifacts import Blob

SECONDS = 20.0
OUTPUT_LIMIT = 2**20

# The newest commit of this line that was made before a time, and what it holds of some paths. It
# reads nothing but objects: no index, no filter, no hook, and no network.
_SCRIPT = """\
export GIT_NO_LAZY_FETCH=1 GIT_OPTIONAL_LOCKS=0
commit=$(git rev-list -1 --min-age="$1" HEAD -- 2>/dev/null) || exit 0
shift
[ -z "$commit" ] || exec git ls-tree -z -l "$commit" -- "$@"
"""
_ENTRY = re.compile(r"(100\d{3}) blob ([0-9a-f]+) +(\d+)\t(.*)", re.DOTALL)


def is_in_repository(folder: str) -> bool:
    """Return whether git may know the files of a folder; blocks. It knows none of one that is gone.

    Such a folder may have a name that none can have here: the run was another machine's.
    """
    if not os.path.isdir(folder):  # noqa: PTH112 - Path.is_dir raises for such a name
        return False
    identity = repo_identity(Path(folder))
    return identity.common_dir != identity.root


async def blobs_before(
    launcher: ProcessLauncher, clock: Clock, folder: str, paths: Sequence[str], since: float
) -> dict[str, Blob]:
    """Return what was committed before `since` (Unix seconds), by path relative to `folder`.

    Where git is missing, says no or takes too long, nothing is known. A commit of the very second
    may be the agent's own and counts as such.
    """
    from prsm_core.workspace.artifacts import Blob

    result = await run_captured(
        launcher,
        ("bash", "--noprofile", "--norc", "-c", _SCRIPT, "git", str(int(since) - 1), *paths),
        name="git",
        cwd=folder,
        timeout_s=SECONDS,
        clock=clock,
        output_limit=OUTPUT_LIMIT,
    )
    entries = (_ENTRY.fullmatch(entry) for entry in result.stdout.split("\0"))
    return {
        entry[4]: Blob(id=entry[2], size=int(entry[3]), is_executable=entry[1] == "100755")
        for entry in entries
        if entry is not None
    }
