"""What a run has changed in its folder, by what git says at its beginning and at its end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from prsm_core import PrsmError
from prsm_core.files import ProcessLauncher, is_in_repository
from prsm_core.kit import escape_exact
from prsm_core.terminal import run_captured

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prsm_core import Clock

SECONDS = 10.0
OUTPUT_LIMIT = 2**22
SHOWN = 10  # files
_COMMIT = 12  # characters that name one
_NOT_READ = 3  # exit code

# What differs from a commit, a file a record; then what git does not know. Nothing that a
# repository configures is run: where it names filters of its own, git is not asked.
_SCRIPT = f"""\
export GIT_NO_LAZY_FETCH=1 GIT_OPTIONAL_LOCKS=0
git config --show-scope --get-regexp '^filter\\..*\\.(clean|process)$' 2>/dev/null |
  grep -qE '^(local|worktree)' && exit {_NOT_READ}
commit=${{1:-$(git rev-parse -q --verify HEAD)}}
[ -n "$commit" ] || commit=$(git hash-object -t tree /dev/null)
printf '%s\\0' "$commit"
set -- -c core.fsmonitor=false -c core.hooksPath=/dev/null
git "$@" diff --numstat -z --relative --no-renames --no-ext-diff --no-textconv --no-color \
  --ignore-submodules=dirty "$commit" -- || exit {_NOT_READ}
git "$@" ls-files -z --others --exclude-standard
"""


class Changed(Struct, frozen=True):
    """How a file differs from a commit; without counts it is binary, or not known to git."""

    added: int | None
    removed: int | None
    is_new: bool  # git does not know it
    stamp: tuple[int, int]  # its time of change (ns) and size, which tell two states apart


class WorkTree(Struct, frozen=True, kw_only=True):
    """What in a folder differs from a commit."""

    commit: str
    files: Mapping[str, Changed] = field(default_factory=dict)  # by path below the folder


async def look_at(folder: str, clock: Clock, *, commit: str = "") -> WorkTree | None:
    """Return what in a folder differs from a commit, by default HEAD.

    None where the folder is in no repository, or git is missing, says no or takes too long.
    """
    if not await asyncio.to_thread(is_in_repository, folder):
        return None
    try:
        async with ProcessLauncher(clock) as launcher:
            result = await run_captured(
                launcher,
                ("bash", "--noprofile", "--norc", "-c", _SCRIPT, "git", commit),
                name="git",
                cwd=folder,
                timeout_s=SECONDS,
                clock=clock,
                output_limit=OUTPUT_LIMIT,
            )
    except PrsmError:  # no bash: nothing can be said of the files, which is not what a run is for
        return None
    if result.exit_code or result.timed_out or result.truncated:
        return None
    head, *records = result.stdout.split("\0")
    found = await asyncio.to_thread(lambda: dict(_read(folder, filter(None, records))))
    return WorkTree(commit=head, files=found)


def describe_changes(before: WorkTree | None, after: WorkTree | None) -> Sequence[str]:
    """Return what has changed between two looks, a file a line, and how to see all of it."""
    if before is None or after is None:
        return ()
    names = [name for name in after.files if before.files.get(name) != after.files[name]]
    names += [name for name in before.files if name not in after.files]
    if not names:
        return ("no file of the folder was changed",)
    files = [(name, after.files.get(name)) for name in sorted(names)]
    added = sum(file.added or 0 for _, file in files if file is not None)
    removed = sum(file.removed or 0 for _, file in files if file is not None)
    hidden = len(files) - SHOWN
    is_dirty = any(name in before.files for name in names)
    dirty = " (what was there before is counted with it)" if is_dirty else ""
    return (
        f"changed: {len(files)} file{'s' * (len(files) != 1)}, +{added} -{removed}{dirty}",
        *(f"  {escape_exact(name)} {_size(file)}" for name, file in files[:SHOWN]),
        *([f"  … {hidden} more"] if hidden > 0 else []),
        f"  see it all: git diff {before.commit[:_COMMIT]}"
        + ("; new files: git status" if any(f is not None and f.is_new for _, f in files) else ""),
    )


def _size(file: Changed | None) -> str:
    if file is None:
        return "is as it was committed again"
    if file.is_new:
        return "is new"
    return "is binary" if file.added is None else f"+{file.added} -{file.removed}"


def _read(folder: str, records: Iterator[str]) -> Iterator[tuple[str, Changed]]:
    for record in records:
        added, tab, rest = record.partition("\t")
        removed, tab, name = rest.partition("\t")
        if not tab:
            yield record, Changed(None, None, True, _stamp(folder, record))
        else:
            counts = [int(count) if count.isdecimal() else None for count in (added, removed)]
            yield name, Changed(counts[0], counts[1], False, _stamp(folder, name))


def _stamp(folder: str, name: str) -> tuple[int, int]:
    try:
        found = Path(folder, name).lstat()
    except OSError:  # it was deleted
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)
