"""Writes a snapshot as a folder that another working tree takes in. None of it is believed.

`working_tree.patch` leads from HEAD's commit to the files that git tracked, `untracked` has the
others, `staged.patch` leads to the staging area; `repositories/N` has the same of one in the
folder. A folder is there whole or not at all.

Files come to be by git alone, in an index of its own, which refuses names that lead elsewhere. They
must have the id that the folder says. Nothing is followed out of the folder, or read that is too
large.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import zlib
from base64 import b85decode
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from prsm_core import ConfigError
from prsm_files.shadow.files import status_if_any, write_new
from prsm_files.shadow.git import GitFailedError, scratch
from prsm_files.shadow.modes import Modes
from prsm_files.shadow.records import FILE, LINK, PROGRAM, RootState, Staging

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from prsm_files.shadow.git import GitDir
    from prsm_files.shadow.records import Snapshot
    from prsm_files.shadow.root import Root
    from prsm_files.shadow.worktree import Shadow

VERSION = 1
META, PATCH, STAGED = "meta.json", "working_tree.patch", "staged.patch"
UNTRACKED, REPOSITORIES = "untracked", "repositories"

META_BYTES = 16 * 2**20
PATCH_BYTES = 64 * 2**20

_ID = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_BINARY = re.compile(rb"^(literal|delta) (\d+)\n[A-Za-z](\S+)$", re.MULTILINE)
_UNMERGED = ".prsm-unmerged/"  # what a tree of a staging area with conflicts has them in
_OF_SNAPSHOT = ("id", "session", "description", "kind", "position")
_OF_ROOT = ("path", "tree", "head", "branch", "under_way")
_HINT = "have it written anew, by `prsm snapshot export`"
_TEXT = 2000  # characters of a description


class Most(Struct, frozen=True, kw_only=True):
    """What is taken in of a folder at most."""

    file_bytes: int = 100 * 2**20  # of one file
    all_bytes: int = 2**30  # of all files together
    files: int = 50_000


MOST = Most()
_write = partial(write_new, is_durable=False)
_QUIET = ("--no-renames", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/")


def import_folder(
    shadow: Shadow, folder: Path, *, with_links: bool = False, most: Most = MOST
) -> Snapshot:
    """Keep the snapshot that was written as a folder, and return it; it blocks.

    Links that lead out of the folder are refused, unless `with_links`. Raises ConfigError (code
    `bad_snapshot`), and then nothing is kept.
    """
    meta = _meta(folder)
    with shadow.at_work():
        roots = []
        for number, given in enumerate(meta["roots"]):
            place = folder / REPOSITORIES / str(number) if number else folder
            roots.append(_take_in(shadow, given, place, most, with_links=with_links))
        return shadow.keep(
            roots,
            description=meta["description"],
            notes=(f"it was written by {meta['id']} as a folder",),
        )


def _bad(what: str, hint: str = _HINT) -> ConfigError:
    return ConfigError(f"this is no snapshot to take in: {what}", hint=hint, code="bad_snapshot")


def _meta(folder: Path) -> Mapping[str, Any]:
    try:
        given = json.loads(_read(folder / META, META_BYTES))
    except (ValueError, RecursionError) as error:
        raise _bad(f"{META} is no JSON") from error
    if not isinstance(given, dict) or given.get("format") != "prsm-snapshot":
        raise _bad(f"{META} is of something else")
    if given.get("version") != VERSION:
        raise _bad(f"it has version {given.get('version')!r}, and not {VERSION}", "upgrade prsm")
    roots, text = given.get("roots"), given.get("description")
    if not isinstance(roots, list) or not 0 < len(roots) <= 100:
        raise _bad(f"{META} says of no files")
    if not isinstance(text, str) or not isinstance(given.get("id"), str):
        raise _bad(f"{META} does not say what it is")
    for number, one in enumerate(roots):
        _check_root(one, number)
    shown = given["id"] if re.fullmatch(r"[0-9a-f]{1,32}", given["id"]) else "another snapshot"
    return {"roots": roots, "description": text[:_TEXT], "id": shown}


def _check_root(given: Any, number: int) -> None:
    if not isinstance(given, dict) or not isinstance(given.get("path"), str):
        raise _bad(f"{META} says of a repository that has no path")
    path = given["path"]
    parts = path.split("/")
    if bool(path) is (number == 0) or "\0" in path:
        raise _bad(f"the path {path!r} is not one of a repository in the folder")
    if number and (path.startswith("/") or {"", ".", "..", ".git"} & {p.lower() for p in parts}):
        raise _bad(f"the path {path!r} leads out of the folder")
    for name in ("tree", "head", "staged", "branch", "under_way"):
        value, is_id = given.get(name), name in {"tree", "head", "staged"}
        if value is None and name != "tree":
            continue
        if not isinstance(value, str) or (is_id and not _ID.fullmatch(value)):
            what = "id" if is_id else "text"
            raise _bad(f"{name} of {path or 'the folder'} is no {what}")
    if given.get("modes") is not None and not _are_modes(given["modes"]):
        raise _bad("its permissions are none of files")


def _are_modes(given: Any) -> bool:
    if not isinstance(given, list) or len(given) != 3 or not isinstance(given[2], dict):
        return False
    numbers = [*given[:2], *given[2].values()]
    return all(type(one) is int and 0 <= one <= 0o777 for one in numbers)


def _take_in(
    shadow: Shadow, given: Mapping[str, Any], place: Path, most: Most, *, with_links: bool
) -> RootState:
    path, head = given["path"], given.get("head")
    if path and not os.path.lexists(shadow.folder / path / ".git"):
        raise _bad(f"there is no repository {path} in this folder", f"make {path} one, first")
    root = shadow.root(path)
    try:
        tree, staged = _rebuilt(root, place, head, most)
    except GitFailedError as error:
        raise _bad(f"git takes it not: {error.said.splitlines()[0]}") from error
    if (tree, staged) != (given["tree"], given.get("staged")):
        raise _bad("its files are not those that it was made of: it is damaged, or was changed")
    base = _base_of(root, head)
    if not with_links:
        for one in (tree, staged or base):
            _check_links(root, base, one)
    modes = given.get("modes")
    known = None if modes is None else Modes(tuple(modes[:2]), modes[2]).to_bytes()
    return RootState(
        path=path,
        tree=tree,
        modes=None if known is None else root.shadow.store(known),
        head=head,
        branch=given.get("branch"),
        under_way=given.get("under_way"),
        staging=None if staged is None else _staging(root, staged),
    )


def _base_of(root: Root, head: str | None) -> str:
    """Return the tree of a commit, or an empty one. Raises ConfigError where it is not there."""
    if head is None:
        return root.shadow.word("mktree", stdin=b"")
    found = root.shadow.ask("rev-parse", "--quiet", "--verify", f"{head}^{{tree}}")
    if found.code:
        raise _bad(
            f"{root.folder} has no commit {head[:12]}, from which its files are made",
            "fetch that commit, then try again",
        )
    return found.out.decode("ascii").strip()


def _rebuilt(
    root: Root, place: Path, head: str | None, most: Most = MOST
) -> tuple[str, str | None]:
    git, base = root.shadow, _base_of(root, head)
    with scratch(git.path / "import.index") as index:
        tree = _applied(git, base, place / PATCH, index, most)
        lines = [
            f"{mode} {git.store(data)}\t".encode("ascii") + os.fsencode(path) + b"\0"
            for path, mode, data in _untracked(place / UNTRACKED, most)
        ]
        if lines:
            git.run("update-index", "-z", "--index-info", stdin=b"".join(lines), index=index)
            tree = git.word("write-tree", "--missing-ok", index=index)
        staged = None
        if os.path.lexists(place / STAGED):
            staged = _applied(git, base, place / STAGED, index, most)
    return tree, staged


def _applied(git: GitDir, base: str, file: Path, index: Path, most: Most) -> str:
    patch = _read(file, PATCH_BYTES)
    size = sum(_declared(*one) for one in _BINARY.findall(patch))
    if size > most.all_bytes:
        raise _bad(f"{file.name} unpacks to {size // 2**20} MiB")
    index.unlink(missing_ok=True)
    git.run("read-tree", base, index=index)
    if patch:
        git.run("apply", "--cached", "--binary", "--whitespace=nowarn", stdin=patch, index=index)
    return git.word("write-tree", "--missing-ok", index=index)


def _declared(kind: bytes, size: bytes, line: bytes) -> int:
    """Return how many bytes a binary part of a patch makes; a delta says so in its beginning."""
    if kind == b"literal":
        return int(size)
    try:
        data = zlib.decompressobj().decompress(b85decode(line), 40)
    except (ValueError, zlib.error) as error:
        raise _bad("a part of its patch is damaged") from error
    _, rest = _number(data)
    return _number(rest)[0]


def _number(data: bytes) -> tuple[int, bytes]:
    value = 0
    for place, byte in enumerate(data):
        value |= (byte & 0x7F) << (7 * place)
        if not byte & 0x80:
            return value, data[place + 1 :]
    raise _bad("a part of its patch is damaged")


def _untracked(top: Path, most: Most) -> Iterator[tuple[str, str, bytes]]:
    """Yield path, mode and content of each file of a folder; no link is followed."""
    found = status_if_any(str(top))
    if found is None or not stat.S_ISDIR(found.st_mode):
        raise _bad(f"{top.name} is {'missing' if found is None else 'no folder'}")
    count = size = 0
    for folder, folders, files in os.walk(top):
        links = [one for one in folders if os.path.islink(os.path.join(folder, one))]  # noqa: PTH114, PTH118
        for name in sorted([*files, *links]):
            full = os.path.join(folder, name)  # noqa: PTH118
            path = os.path.relpath(full, top)
            if ".git" in path.lower().split("/"):
                raise _bad(f"{path!r} would be a part of a repository")
            kind = os.lstat(full).st_mode
            if stat.S_ISLNK(kind):
                mode, data = LINK, os.fsencode(os.readlink(full))  # noqa: PTH115 - as it is written
            else:
                mode = PROGRAM if kind & stat.S_IXUSR else FILE
                data = _read(full, most.file_bytes)
            count, size = count + 1, size + len(data)
            if count > most.files or size > most.all_bytes:
                raise _bad(
                    f"it has more than {most.files} files, or {most.all_bytes // 2**20} MiB",
                    "leave out what is not needed, and take another snapshot",
                )
            yield path, mode, data


def _read(path: str | Path, limit: int) -> bytes:
    """Return what a file holds; of a link, a pipe or a large one nothing is read."""
    name = os.path.basename(path)  # noqa: PTH119 - of a name that need not be UTF-8
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise _bad(f"{name} is missing") from error
    except OSError as error:
        raise _bad(f"{name!r} cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _bad(f"{name!r} is no file")
        data = file.read(limit + 1)
    if len(data) > limit:
        raise _bad(f"{name!r} is larger than {limit // 2**20} MiB")
    return data


def _check_links(root: Root, base: str, tree: str) -> None:
    for one in root.compare(base, tree):
        if one.after is not None and one.after.mode == LINK:
            leads_to = os.fsdecode(root.shadow.blob(one.after.blob))
            parent = os.path.dirname(one.path)  # noqa: PTH120 - of names that need not be UTF-8
            place = os.path.normpath(os.path.join(parent, leads_to))  # noqa: PTH118
            if place.startswith(("/", "../")) or place == "..":
                raise _bad(
                    f"the link {one.path!r} leads out of the folder, to {leads_to!r}",
                    "if you want it all the same: prsm snapshot import --links",
                )


def _staging(root: Root, staged: str) -> Staging:
    git = root.shadow
    lines = []
    for path, entry in git.tree(staged).items():
        stage, name = "0", path
        if path.startswith(_UNMERGED):
            stage, name = path.removeprefix(_UNMERGED).split("/", 1)
        lines.append(f"{entry.mode} {entry.blob} {stage}\t{name}\0")
    with scratch(git.path / "import.index") as index:
        git.run("read-tree", "--empty", index=index)
        told = os.fsencode("".join(lines))
        git.run("update-index", "-z", "--index-info", stdin=told, index=index)
        return Staging(git.store(index.read_bytes()), staged, 0)


def export_folder(
    shadow: Shadow, wanted: str, folder: Path, *, besides: Mapping[str, bytes] | None = None
) -> Snapshot:
    """Write a snapshot to a new folder, with files `besides`. Raises OSError, ConfigError."""
    if os.path.lexists(folder):
        raise ConfigError(
            f"{folder} is there already", hint="give the name of a folder that is not there"
        )
    snapshot = shadow.find(wanted)
    new = folder.with_name(f".{folder.name}.new-{snapshot.id}")
    shutil.rmtree(new, ignore_errors=True)
    try:
        with shadow.at_work():
            new.mkdir(mode=0o700, parents=True)
            _write(new / META, json.dumps(_meta_of(shadow, snapshot), indent=1).encode("ascii"))
            for number, state in enumerate(snapshot.roots):
                place = new / REPOSITORIES / str(number) if number else new
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
                _write_root(shadow.root(state.path), state, place)
        for name, data in (besides or {}).items():
            (new / name).parent.mkdir(mode=0o700, exist_ok=True)
            _write(new / name, data)
        new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return snapshot


def _meta_of(shadow: Shadow, snapshot: Snapshot) -> Mapping[str, Any]:
    roots = []
    for state in snapshot.roots:
        modes, staging = state.modes, state.staging
        about = {name: getattr(state, name) for name in _OF_ROOT}
        about["staged"] = None if staging is None else staging.tree
        git = shadow.root(state.path).shadow
        about["modes"] = None if modes is None else json.loads(git.blob(modes))
        roots.append(about)
    return {
        "format": "prsm-snapshot",
        "version": VERSION,
        **{name: getattr(snapshot, name) for name in _OF_SNAPSHOT},
        "timestamp": snapshot.created_at,
        "branch": snapshot.main.branch,
        "skipped": snapshot.skipped_count,
        "roots": roots,
    }


def _write_root(root: Root, state: RootState, place: Path) -> None:
    git, base = root.shadow, _base_of(root, state.head)
    staged = None if state.staging is None else state.staging.tree
    if staged is not None:
        _write(place / STAGED, _patch(git, base, staged, place))
    tracked = git.tree(base).keys() | (git.tree(staged).keys() if staged is not None else set())
    others = {path: one for path, one in git.tree(state.tree).items() if path not in tracked}
    with scratch(place / ".index") as index:
        git.run("read-tree", state.tree, index=index)
        git.remove(list(others), index)
        known = git.word("write-tree", "--missing-ok", index=index)
    _write(place / PATCH, _patch(git, base, known, place))
    (place / UNTRACKED).mkdir(mode=0o700)
    for path, entry in others.items():
        file, data = place / UNTRACKED / path, git.blob(entry.blob)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if entry.mode == LINK:
            file.symlink_to(os.fsdecode(data))
        else:
            _write(file, data, 0o700 if entry.mode == PROGRAM else None)
    # What is read is what was kept.
    if _rebuilt(root, place, state.head) != (state.tree, staged):
        raise ConfigError(
            f"the files of {root.folder} cannot be written as a patch of its commit",
            hint="`prsm snapshot restore` goes back to them here",
        )


def _patch(git: GitDir, old: str, new: str, place: Path) -> bytes:
    if old == new:
        return b""
    patch = git.run("diff-tree", "-r", "-p", "--binary", "--full-index", *_QUIET, old, new)
    if len(patch) > PATCH_BYTES:
        raise ConfigError(
            f"what differs from the commit is a patch of {len(patch) // 2**20} MiB, "
            f"more than {PATCH_BYTES // 2**20} MiB: {place.parent}",
            hint="commit, or leave out, large files, and take another snapshot",
        )
    return patch
