"""What snapshots borrow and no commit of the repository holds any more is taken in, in time.

A snapshot reads from the repository what was committed when it was taken. As long as a ref leads to
that commit, git keeps it. Where history was rewritten, or a branch deleted, git throws it away one
day; until then it is still there, and what snapshots need of it is copied, and nothing else.
"""

from __future__ import annotations

import json
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from prsm_files.shadow.files import put
from prsm_files.shadow.keeping import REFS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from prsm_files.shadow.records import Snapshot
    from prsm_files.shadow.root import Root

_NOTE = "secured.json"  # beside the git directory: of which snapshots this was done, and when
_NOTHING: dict[str, list[str]] = {"lost": [], "snapshots": [], "relied": []}


def pack(
    snapshots: Iterable[Snapshot], root_of: Callable[[str], Root], is_there: Callable[[str], bool]
) -> None:
    """Take in all that snapshots need, whoever else has it. Raises GitFailedError.

    Of a root that is gone there is nothing to take, nor of what a clone of a part has never had.
    """
    ids = defaultdict[str, list[str]](list)
    for one in snapshots:
        for state in one.roots:
            ids[state.path].append(one.id)
    for path in sorted(filter(is_there, ids)):
        _take(root_of(path), ids[path], (), ())


def secure(
    snapshots: Iterable[Snapshot], root_of: Callable[[str], Root], is_there: Callable[[str], bool]
) -> int:
    """Take in what snapshots borrow and git may throw away; return how many objects it was.

    A root that is gone borrows nothing. Raises GitFailedError.
    """
    ids, heads = defaultdict[str, list[str]](list), defaultdict[str, set[str]](set)
    for one in snapshots:
        for state in one.roots:
            ids[state.path].append(one.id)
            heads[state.path].add(state.head or "")
    paths = sorted(filter(is_there, ids))
    return sum(_secure(root_of(path), ids[path], heads[path]) for path in paths)


def _secure(root: Root, snapshots: Sequence[str], heads: Collection[str]) -> int:
    """Do it for one root.

    Where something is lost, what is borrowed still is so from what refs lead to now: their tips are
    noted, and watched from then on like the commits that were checked out. So each loss is seen.
    """
    if root.repository is None:
        return 0
    note = _note(root)
    if root.has_repository_inside:
        return _take_all(root, snapshots, note["snapshots"])
    lost = _lost(root, {*heads, root.borrowed_from, *note["relied"]} - {""})
    if not lost or (note["lost"] == lost and note["snapshots"] == snapshots):
        return 0
    # Of snapshots that this was done for, all is there; of others, what those do not share.
    safe = {*note["snapshots"]} & {*snapshots} if note["lost"] == lost else set()
    tips = _words(root.person.run("rev-list", "--no-walk", "--ignore-missing", "--all"))
    count = _take(root, [one for one in snapshots if one not in safe], safe, tips)
    still = _lost(root, {*heads, root.borrowed_from, *tips} - {""})
    _write_note(root, lost=still, snapshots=snapshots, relied=tips)
    return count


def _take_all(root: Root, snapshots: Sequence[str], done: Collection[str]) -> int:
    """Take in all that is borrowed from a repository that goes with the folder it is in."""
    if [*done] == [*snapshots]:
        return 0
    safe = {*done} & {*snapshots}
    count = _take(root, [one for one in snapshots if one not in safe], safe, ())
    _write_note(root, lost=(), snapshots=snapshots, relied=())
    return count


def _take(root: Root, snapshots: Iterable[str], safe: Iterable[str], tips: Iterable[str]) -> int:
    """Take in what snapshots borrow, that neither those which are safe nor tips have."""
    borrowed = _borrowed(root, snapshots, safe, tips)
    if borrowed:
        packs = root.shadow.path / "objects" / "pack"
        packs.mkdir(parents=True, exist_ok=True)
        root.shadow.run("pack-objects", "-q", str(packs / "pack"), stdin=_lines(borrowed))
    return len(borrowed)


def _write_note(root: Root, **now: Sequence[str]) -> None:
    told = {name: [*words] for name, words in now.items()}
    put(root.place / _NOTE, json.dumps(told).encode("ascii"))


def _lost(root: Root, commits: Collection[str]) -> list[str]:
    """Return the commits that no ref leads to, whether or not they are still there."""
    if not commits:
        return []
    look = partial(root.person.run, "rev-list", "--ignore-missing", "--stdin")
    there = {*_words(look("--no-walk", stdin=_lines(commits)))}
    unreached = {*_words(look("--not", "--all", stdin=_lines(commits)))} if there else set()
    return sorted(one for one in commits if one not in there or one in unreached)


def _borrowed(
    root: Root, snapshots: Iterable[str], safe: Iterable[str], tips: Iterable[str]
) -> list[str]:
    """Return the objects of snapshots that are there, but neither the shadow nor a tip has them."""
    wanted = [f"{REFS}{one}" for one in snapshots]
    # Trees, for of a commit that has nothing to do with a snapshot's git compares none.
    kept = [f"^{one}^{{tree}}" for one in (*tips, *(f"{REFS}{one}" for one in safe))]
    how = ("--no-object-names", "--ignore-missing", "--missing=allow-any", "--stdin")
    needed = root.shadow.run("rev-list", "--objects", *how, stdin=_lines([*wanted, *kept]))
    look = partial(root.shadow.run, "cat-file", "--batch-check=%(objectname)")
    foreign = _missing(look(stdin=needed, alone=True))
    gone = {*_missing(look(stdin=_lines(foreign)))} if foreign else set()
    return [one for one in foreign if one not in gone]


def _missing(found: bytes) -> list[str]:
    lines = found.decode("ascii").splitlines()
    return [line.split()[0] for line in lines if line.endswith(" missing")]


def _note(root: Root) -> dict[str, list[str]]:
    """Return what was done before; nothing where that cannot be read, so that it is done again."""
    try:
        known = json.loads((root.place / _NOTE).read_bytes())
        return {name: [str(one) for one in known[name]] for name in _NOTHING}
    except (OSError, ValueError, LookupError, TypeError):
        return _NOTHING


def _words(out: bytes) -> list[str]:
    return out.decode("ascii").split()


def _lines(words: Iterable[str]) -> bytes:
    return "".join(f"{word}\n" for word in words).encode("ascii")
