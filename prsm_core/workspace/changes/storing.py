"""What changes hold, in the git directory of their root: lines counted, contents kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from prsm_core.workspace.changes.records import FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_core.workspace.changes.records import Entry, Found, Written
    from prsm_core.workspace.shadow.git import GitDir


def kept(git: GitDir, ref: str, found: Sequence[Found]) -> list[Found]:
    """Keep what changes hold as long as the refs are there; return them with their lines counted.

    All are compared by one command, as two trees in which each is a file that is named by its
    number. Raises GitFailedError.
    """
    if not found:
        return []
    old, new = _trees(git, found)
    lines = f"update {ref}/before {old}\nupdate {ref}/after {new}\n"
    git.run("update-ref", "--stdin", stdin=lines.encode("ascii"))
    options = ("-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv")
    counts: dict[int, tuple[int | None, int | None]] = {}
    for line in git.run("diff-tree", *options, old, new).split(b"\0"):
        if line:
            added, removed, name = line.split(b"\t")
            counts[int(name)] = _number(added), _number(removed)
    return [
        replace(one, added=counted[0], removed=counted[1])
        for number, one in enumerate(found)
        for counted in [counts.get(number, (0, 0)) if _is_whole(one) else (None, None)]
    ]


def hold(git: GitDir, ref: str, written: Sequence[Written]) -> None:
    """Keep what PRSM itself has written, and what it replaced: changes that come name it.

    Raises GitFailedError.
    """
    for tree in _trees(git, written):
        git.run("update-ref", f"{ref}/{tree}", tree)


def _trees(git: GitDir, found: Sequence[Found | Written]) -> tuple[str, str]:
    old = _lines(found, lambda one: one.before)
    new = _lines(found, lambda one: one.after)
    made = git.run("mktree", "--batch", "--missing", stdin=old + b"\n" + new + b"\n")
    before, after = made.decode("ascii").split()
    return before, after


def _lines(
    found: Sequence[Found | Written], side: Callable[[Found | Written], Entry | None]
) -> bytes:
    lines = [
        f"{FILE} blob {entry.blob}\t{number}\n"  # of links, too: it is their text that counts
        for number, one in enumerate(found)
        if (entry := side(one)) is not None and entry.blob
    ]
    return "".join(lines).encode("ascii")


def _is_whole(one: Found) -> bool:
    return all(entry is None or entry.blob for entry in (one.before, one.after))


def _number(said: bytes) -> int | None:
    return int(said) if said.isdigit() else None
