"""Writes a snapshot as a folder that another working tree can take in; see `importing`.

`working_tree.patch` leads from the commit that HEAD was at to the files that git tracked,
`untracked` has the others as they are, and `staged.patch` leads to the staging area. A repository
in the folder has the same in `repositories/N`. A folder is there whole or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

from prsm_core import ConfigError
from prsm_files.shadow.git import scratch
from prsm_files.shadow.importing import (
    META,
    PATCH,
    PATCH_BYTES,
    REPOSITORIES,
    STAGED,
    UNTRACKED,
    VERSION,
    base_of,
    rebuilt,
)
from prsm_files.shadow.records import LINK, PROGRAM

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from prsm_files.shadow.git import GitDir
    from prsm_files.shadow.records import RootState, Snapshot
    from prsm_files.shadow.root import Root
    from prsm_files.shadow.worktree import Shadow

_QUIET = ("--no-renames", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/")


def export_folder(
    shadow: Shadow, wanted: str, folder: Path, *, besides: Mapping[str, bytes] | None = None
) -> Snapshot:
    """Write a snapshot to a new folder, with files `besides`; it blocks.

    Raises OSError, and ConfigError where the folder is there already, or it cannot be written so.
    """
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
            _write(new / META, json.dumps(_meta(shadow, snapshot), indent=1).encode("ascii"))
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


def _meta(shadow: Shadow, snapshot: Snapshot) -> Mapping[str, Any]:
    main = snapshot.main
    return {
        "format": "prsm-snapshot",
        "version": VERSION,
        "id": snapshot.id,
        "session": snapshot.session,
        "description": snapshot.description,
        "timestamp": snapshot.created_at,
        "branch": main.branch,
        "kind": snapshot.kind,
        "position": snapshot.position,
        "skipped": snapshot.skipped_count,
        "roots": [_root_meta(shadow.root(state.path), state) for state in snapshot.roots],
    }


def _root_meta(root: Root, state: RootState) -> Mapping[str, Any]:
    return {
        "path": state.path,
        "tree": state.tree,
        "head": state.head,
        "branch": state.branch,
        "under_way": state.under_way,
        "staged": None if state.staging is None else state.staging.tree,
        "modes": None if state.modes is None else json.loads(root.shadow.blob(state.modes)),
    }


def _write_root(root: Root, state: RootState, place: Path) -> None:
    git, base = root.shadow, base_of(root, state.head)
    staged = None if state.staging is None else state.staging.tree
    if staged is not None:
        _write(place / STAGED, _patch(git, base, staged, place))
    tracked = git.tree(base).keys() | (git.tree(staged).keys() if staged is not None else set())
    others = {path: one for path, one in git.tree(state.tree).items() if path not in tracked}
    known = _without(git, state.tree, list(others), place)
    _write(place / PATCH, _patch(git, base, known, place))
    (place / UNTRACKED).mkdir(mode=0o700)
    for path, entry in others.items():
        _write_file(place / UNTRACKED / path, entry.mode, git.blob(entry.blob))
    if rebuilt(root, place, state.head) != (state.tree, staged):  # what is read is what was kept
        raise ConfigError(
            f"the files of {root.folder} cannot be written as a patch of its commit",
            hint="`prsm snapshot restore` goes back to them here",
        )


def _without(git: GitDir, tree: str, paths: list[str], place: Path) -> str:
    if not paths:
        return tree
    with scratch(place / ".index") as index:
        git.run("read-tree", tree, index=index)
        git.remove(paths, index)
        return git.word("write-tree", "--missing-ok", index=index)


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


def _write(file: Path, data: bytes) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as new:
        new.write(data)


def _write_file(file: Path, mode: str, data: bytes) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if mode == LINK:
        file.symlink_to(os.fsdecode(data))
        return
    _write(file, data)
    if mode == PROGRAM:
        file.chmod(0o700)
