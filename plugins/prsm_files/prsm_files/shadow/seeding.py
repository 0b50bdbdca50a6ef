"""The index that a root begins with: the person's own, as far as it tells the bytes of files.

An index says of a file that it is as it was hashed. What was hashed is what a conversion made of
it, if there was one: that changes its size, but for filters, which can do anything.
"""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

from prsm_files.shadow.git import listed, names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from prsm_files.shadow.git import GitDir
    from prsm_files.shadow.place import Repository

_ATTRIBUTES = ".gitattributes"
_CONVERTS_FREELY = re.compile(rb"(?:^|\s)(?:filter|working-tree-encoding)(?:=|\s|$)")
# tag, mode, id, stage, path; then lines of numbers, of which the size is the last but one
_ENTRY = re.compile(
    rb"(.) (\d{6}) ([0-9a-f]+) (\d)\t([^\0]*)\0(?:  [^\n]*\n){4}  size: (\d+)[^\n]*\n"
)


def seed(shadow: GitDir, person: GitDir, repository: Repository) -> str | None:
    """Give a shadow without an index what can be relied on of the person's; it may be nothing.

    Return the commit that holds all content that was not stored anew, None where there is none.
    """
    if not repository.index.is_file():
        return None
    head = person.ask("rev-parse", "--quiet", "--verify", "HEAD^{commit}").out.decode("ascii")
    if not head:
        return None
    copy = shadow.path / "index.seed"
    shutil.copy2(repository.index, copy)  # with its time: by it git tells what it must look at
    try:
        if not _keep_reliable(shadow, person, repository, copy, head.strip()):
            return None
        copy.replace(shadow.path / "index")
    finally:
        copy.unlink(missing_ok=True)
    return head.strip()


def _keep_reliable(
    shadow: GitDir, person: GitDir, repository: Repository, copy: Path, head: str
) -> bool:
    """Take out of a copy of the index what is not sure; return whether the rest can be used."""
    output = shadow.ask("ls-files", "-s", "-v", "--debug", "-z", index=copy)
    staged = shadow.ask("diff-index", "--cached", "--name-only", "-z", head, index=copy)
    if output.code or staged.code:  # an index in parts, or no commit yet
        return False
    entries = [match.groups() for match in _ENTRY.finditer(output.out)]
    if _may_convert(person.work_tree, repository, (entry[4] for entry in entries)):
        return False
    unsure = {name.encode("utf-8", "surrogateescape") for name in names(staged.out)}
    unsure |= set(_unreliable(shadow, entries))
    if unsure:
        paths = [path.decode("utf-8", "surrogateescape") for path in sorted(unsure)]
        shadow.run(
            "update-index", "-z", "--force-remove", "--stdin", stdin=listed(paths), index=copy
        )
    return True


def _unreliable(shadow: GitDir, entries: list[tuple[bytes, ...]]) -> Iterator[bytes]:
    """Yield the paths of which the index does not tell the bytes that are in the file."""
    asked = b"".join(entry[2] + b"\n" for entry in entries)
    told = shadow.run("cat-file", "--buffer", "--batch-check=%(objectsize)", stdin=asked)
    sizes = told.split(b"\n")
    for (tag, mode, _, stage, path, size), known in zip(entries, sizes, strict=False):
        if tag != b"H" or stage != b"0" or mode == b"160000" or size != known:
            yield path


def _may_convert(folder: Path, repository: Repository, paths: Iterable[bytes]) -> bool:
    """Return whether attributes name conversions that may keep the size of a file."""
    files = {folder / _ATTRIBUTES, repository.common_dir / "info" / "attributes"}
    for path in paths:
        if path.endswith(_ATTRIBUTES.encode()):
            files.add(folder / path.decode("utf-8", "surrogateescape"))
    return any(_CONVERTS_FREELY.search(_text(file)) for file in files)


def _text(file: Path) -> bytes:
    try:
        return file.read_bytes() if file.is_file() else b""
    except OSError:  # whoever cannot read it cannot be converted by it
        return b""
