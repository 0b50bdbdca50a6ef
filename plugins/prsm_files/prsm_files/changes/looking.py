"""One look at a root: what of it is not as it was known, and what stands there now.

The index is the tracker's own, and says what each file was once. What changed since is kept beside
it, so that a look writes no index.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from typing import TYPE_CHECKING, NamedTuple

from prsm_files.shadow.files import Stamp, stamp_of, why_not_stored
from prsm_files.shadow.git import FEW, GitFailedError, listed, names
from prsm_files.shadow.place import RealFolders
from prsm_files.shadow.records import FILE, LINK, PROGRAM, Entry

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from prsm_files.shadow.git import GitDir

_YOUNG_NS = 2 * 10**9  # what changed so shortly before it was looked at may change unnoticed


class Known(NamedTuple):
    """What a path was when it was last looked at."""

    entry: Entry | None
    stamp: Stamp | None
    is_young: bool

    @property
    def written_at(self) -> float | None:
        """When it was changed last, by the kernel, in Unix seconds; None where nothing is."""
        return None if self.stamp is None else self.stamp[3] / 1e9


class Differing(NamedTuple):
    """What git says of a root: paths that may differ from the index, those it lacks, and roots."""

    changed: list[str]
    others: list[str]
    tops: list[str]


class RootLook:
    """Looks at the working tree of a shadow, by an index of its own; paths may be `hidden`."""

    def __init__(
        self, git: GitDir, index: Path, file_bytes: int, hidden: tuple[str, ...] = ()
    ) -> None:
        self.git = git
        self._index = index
        self._file_bytes = file_bytes
        self._hidden = hidden
        self._top = f"{git.work_tree}/"

    def begin(self) -> None:
        """Take what the shadow knows by now as what there is."""
        shadow = self.git.path / "index"
        if shadow.exists():
            shutil.copy2(shadow, self._index)  # with its time: by it git tells what may be young
        else:
            self._index.unlink(missing_ok=True)

    def differing(self, known: Container[str] = ()) -> Differing:
        """Ask git what differs from the index; of some paths it is known. Raises GitFailedError."""
        args = ("-t", "-z", "--modified", "--deleted", "--others", "--exclude-standard")
        output = self.git.ask("ls-files", *args, index=self._index)
        if output.code:
            raise GitFailedError(("ls-files",), output)
        lines = [(line[0], line[2:]) for line in names(output.out)]
        changed = list(dict.fromkeys(path for tag, path in lines if tag != "?"))
        new = [path for tag, path in lines if tag == "?" and not path.startswith(self._hidden)]
        others = [path for path in new if not path.endswith("/")]
        changed += self._behind([one for one in others if one not in known])
        return Differing(changed, others, [path.rstrip("/") for path in new if path.endswith("/")])

    def _behind(self, new: Sequence[str]) -> Iterator[str]:
        """Yield files of the index hidden by a link above: git sees what it leads to instead."""
        links = [path for path in new if os.path.islink(self._top + path)]  # noqa: PTH114
        for number in range(0, len(links), FEW):
            few = links[number : number + FEW]
            yield from names(self.git.run("ls-files", "-z", "--", *few, index=self._index))

    def refresh(self) -> None:
        """Let the index know the times of files that are as it says. Raises GitFailedError."""
        self.git.ask("update-index", "-q", "--refresh", index=self._index)

    def in_index(self, paths: Sequence[str]) -> dict[str, Entry]:
        """Return what the index says of paths. Raises GitFailedError."""
        return self.git.in_index(paths, self._index)

    def now(self, paths: Iterable[str], known: Mapping[str, Known]) -> dict[str, Known]:
        """Return what stands at paths where it may be another than known. Raises GitFailedError."""
        for last in (False, False, True):
            stamps = self._stamps(paths, known)
            try:
                blobs = self._stored(
                    [path for path, (stamp, why) in stamps.items() if stamp and not why]
                )
            except (GitFailedError, FileNotFoundError):  # a file has gone since
                if last:
                    raise
                continue
            return {path: self._known(path, stamp, blobs) for path, stamp in stamps.items()}
        raise AssertionError("the last try returns or raises")

    def fold(self, known: Mapping[str, Known]) -> dict[str, Known]:
        """Take what has changed into the index; return what it says not. Raises GitFailedError."""
        self.git.remove([path for path, one in known.items() if one.entry is None], self._index)
        there = [path for path, one in known.items() if one.entry is not None and one.entry.blob]
        args = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
        self.git.run(*args, stdin=listed(there), index=self._index)
        said = self.in_index(list(known))
        return {path: one for path, one in known.items() if said.get(path) != one.entry}

    def ignored(self, paths: Sequence[str]) -> set[str]:
        """Return those paths that git ignores; none behind a link is. Raises GitFailedError."""
        real = RealFolders(self.git.work_tree)
        asked = [path for path in paths if not real.is_behind_link(path)]
        if not asked:
            return set()
        args = ("check-ignore", "--no-index", "-z", "--stdin")
        given = listed([f"./{path}" for path in asked])  # so that no name is a pattern
        output = self.git.ask(*args, stdin=given, index=self._index, is_literal=False)
        if output.code > 1:
            raise GitFailedError(args, output)
        return {name.removeprefix("./") for name in names(output.out)}

    def _stamps(
        self, paths: Iterable[str], known: Mapping[str, Known]
    ) -> dict[str, tuple[Stamp | None, str]]:
        """Return stamps of paths that may have changed, each with why its content is not stored."""
        real = RealFolders(self.git.work_tree)
        found: dict[str, tuple[Stamp | None, str]] = {}
        for path in paths:
            stamp = _stamp(self._top + path) if real.holds(path) else None
            was = known.get(path)
            if was is None or was.is_young or was.stamp != stamp:
                why = why_not_stored(self._top + path, stamp, self._file_bytes)
                found[path] = stamp, why
        return found

    def _stored(self, paths: Sequence[str]) -> dict[str, str]:
        # What git can read from a list of lines.
        plain = [
            path
            for path in paths
            if not (set("\r\n") & set(path) or os.path.islink(self._top + path))  # noqa: PTH114
        ]
        blobs: dict[str, str] = {}
        if plain:
            asked = b"".join(map(_quoted, plain))
            args = ("hash-object", "-w", "--no-filters", "--stdin-paths")
            said = self.git.run(*args, stdin=asked, alone=True)
            blobs.update(zip(plain, said.decode("ascii").split(), strict=True))
        for path in set(paths) - set(plain):
            blobs[path] = self.git.store(content(self._top + path))
        return blobs

    def _known(self, path: str, found: tuple[Stamp | None, str], blobs: Mapping[str, str]) -> Known:
        stamp, why = found
        if stamp is None:
            return Known(None, None, False)
        mode = LINK if stat.S_ISLNK(stamp[0]) else PROGRAM if stamp[0] & stat.S_IXUSR else FILE
        is_young = stamp[3] > time.time_ns() - _YOUNG_NS or _stamp(self._top + path) != stamp
        if why:
            return Known(Entry(mode, "", why, f"{stamp[1]}:{stamp[2]}"), stamp, False)
        return Known(Entry(mode, blobs[path]), stamp, is_young)


def _stamp(path: str) -> Stamp | None:
    found = stamp_of(path)
    return found if found and (stat.S_ISREG(found[0]) or stat.S_ISLNK(found[0])) else None


def content(path: str) -> bytes:
    """Return what a file holds, or where a link leads. Raises OSError."""
    if os.path.islink(path):  # noqa: PTH114 - as it is written
        return os.fsencode(os.readlink(path))  # noqa: PTH115
    with open(path, "rb") as file:  # noqa: PTH123 - a name that need not be UTF-8
        return file.read()


def _quoted(path: str) -> bytes:
    """Return a path as git reads it in a line: one that begins with a quote is a quotation."""
    line = os.fsencode(path)
    if line.startswith(b'"'):
        line = b'"' + line.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
    return line + b"\n"
