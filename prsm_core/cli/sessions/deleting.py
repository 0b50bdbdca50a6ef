"""Deletes a session so that a kill leaves it whole, or leaves what the next command removes.

The ledger's own transaction is what deletes a session. What is of it elsewhere is noted before, in
`deletions/` of the state directory, and removed afterwards; then the note goes. So a note of a
session that is still there tells that nothing was done yet, and one of a session that is not there
tells what is left to do. A note that is half written is of the first kind.

What a provider keeps of an agent bears, somewhere in its name, the agent's id or the token of its
thread, or its plugin knows how to find it: see `ProviderSpec`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from prsm_core.cli.places import DELETIONS, deletion_notes
from prsm_core.config import private_dir
from prsm_core.domain.record import Record
from prsm_core.domain.turns import IMAGE_SCHEME
from prsm_core.engine.control.session_lock import SessionLock
from prsm_core.errors import PrsmError, SessionOwnedError, StoreError
from prsm_core.plugins.guard import Guest
from prsm_core.plugins.objects import load_object
from prsm_core.store.removal import (
    cited_in,
    holds_session,
    names_outside,
    overwrite_removed,
    own_snapshots,
    remove_session,
)
from prsm_core.workspace.images import FILE, IMAGES, remove_images

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from prsm_core.cli.sessions.keepers import Keepers
    from prsm_core.interfaces.provider import ProviderSpec


class Note(Record, frozen=True, kw_only=True):
    """What is to go with a session: names in providers' files, its images and snapshots."""

    ledger: Path
    names: Collection[str]
    images: Collection[str]
    snapshots: Collection[str] = ()


class Places(Record, frozen=True):
    """Where all of a session is: PRSM's state, the ledger in it, and who keeps more."""

    state: Path
    ledger: Path
    keepers: Keepers


async def delete(places: Places, session: str, lock: SessionLock) -> tuple[Mapping[str, int], int]:
    """Delete a session, whose lock is released; return how many rows by table, and files, went.

    Its worktrees are given up, and then removed. After a PrsmError the session is there as it was,
    or something of it is left, which the next command that takes sessions removes.
    """
    with lock:
        done = await asyncio.to_thread(_delete, places, session)
        await places.keepers.remove_left()
    _path(places.state, session).unlink(missing_ok=True)
    return done


def finish_deletions(
    state: Path, keepers: Callable[[], Keepers], remove_trees: Callable[[], None]
) -> list[str]:
    """Finish what deletions have begun whose process was killed; return what went wrong."""
    problems = []
    for path in deletion_notes(state):
        try:
            with SessionLock.take(state, path.stem, since=time.time()):
                _finish(state, path, keepers)
                remove_trees()
            path.unlink(missing_ok=True)
        except SessionOwnedError:
            continue  # it is being deleted just now, or goes on
        except PrsmError as error:
            problems.append(error.message)
    return problems


def _finish(state: Path, path: Path, keepers: Callable[[], Keepers]) -> None:
    """Remove the rest of a session; nothing of one that is still there."""
    note = _read(path)
    if note is None or holds_session(note.ledger, path.stem):
        return
    if note.ledger.exists():
        overwrite_removed(note.ledger)
    _clear(state, path.stem, note, keepers())


def _delete(places: Places, session: str) -> tuple[Mapping[str, int], int]:
    state, ledger = places.state, places.ledger
    note = Note(
        ledger=ledger,
        names=sorted(names_outside(ledger, session)),
        images=sorted(_cited(ledger, session)),
        snapshots=sorted(own_snapshots(ledger, session)),
    )
    private_dir(state / DELETIONS)
    path = _path(state, session)
    try:
        _write(path, note)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise StoreError(
            f"nothing was deleted: {path} cannot be written: {error.strerror}",
            hint="check the disk: space, permissions, health",
        ) from error
    try:
        counts = remove_session(ledger, session)
    except PrsmError:
        path.unlink()
        raise
    return counts, _clear(state, session, note, places.keepers)


def _path(state: Path, session: str) -> Path:
    """Return where a session's note lies; it goes last of all, after the session's lock."""
    return state / DELETIONS / f"{session}.json"


def _clear(state: Path, session: str, note: Note, keepers: Keepers) -> int:
    for each in keepers.files:
        each.leave(session)
    count = remove_leftovers(state, session, note.names, keepers.providers)
    for each in keepers.files:
        count += each.forget(session, note.snapshots)
    # A run of another repository may show the same image.
    ledgers = sorted(note.ledger.parent.parent.glob(f"*/{note.ledger.name}"))
    return count + remove_images(
        state / IMAGES, note.images, lambda: {file for one in ledgers for file in _cited(one)}
    )


def _cited(ledger: Path, session: str | None = None) -> frozenset[str]:
    found = cited_in(ledger, IMAGE_SCHEME, re.compile(IMAGE_SCHEME + FILE.pattern), session)
    return frozenset(mark.removeprefix(IMAGE_SCHEME) for mark in found)


def _write(path: Path, note: Note) -> None:
    about = asdict(note) | {"ledger": str(note.ledger)}
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(about, file)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> Note | None:
    """Return a note; None for one whose writer was killed."""
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None
    return Note(**{**about, "ledger": Path(about["ledger"])})


_SHORTEST = 16  # characters of a name that can be nobody else's


def remove_leftovers(
    state: Path, session: str, names: Collection[str], specs: Iterable[ProviderSpec] = ()
) -> int:
    """Delete all that bears one of the `names`, and the session's log; return how many.

    What lies in a folder that goes is not counted by itself. Raises PrsmError for what cannot be
    deleted; some may be gone by then.
    """
    for spec in specs:
        _have_forgotten(state / "providers", spec, names)
    own = [name.rpartition("/")[2] for name in names]
    own = [name for name in own if len(name) >= _SHORTEST]
    count = 0
    try:
        if own:
            theirs = re.compile("|".join(map(re.escape, own)))
            for path in _found(state / "providers", theirs):
                _remove(path)
                count += 1
        log = state / "logs" / f"{session}.log"
        if log.exists():
            log.unlink()
            count += 1
    except OSError as error:
        raise PrsmError(
            f"{error.filename} cannot be deleted: {error.strerror}",
            hint="see to its permissions: the next `prsm sessions` command tries again",
        ) from error
    return count


def strangers(state: Path, specs: Iterable[ProviderSpec]) -> list[Path]:
    """Return the folders of providers that are not among these, and so can have forgotten none."""
    known = {spec.name for spec in specs}
    folders = sorted((state / "providers").glob("*"))
    return [folder for folder in folders if folder.name.partition("@")[0] not in known]


def _have_forgotten(folder: Path, spec: ProviderSpec, names: Collection[str]) -> None:
    """Have a provider take out what names in files do not tell, of each login that it had."""
    if spec.forget is None:
        return
    for private in (folder / spec.name, *sorted(folder.glob(f"{spec.name}@*"))):
        if private.is_dir():
            forget = load_object(spec.forget, plugin=spec.name)
            with Guest("provider", spec.name, spec.forget).calling("forget", passes=(PrsmError,)):
                forget(private, names)


def _found(folder: Path, name: re.Pattern[str]) -> Iterator[Path]:
    """Yield what bears the name, but nothing below that; no link is followed."""
    for where, folders, files in os.walk(folder):
        there = [*folders, *files]
        folders[:] = [each for each in folders if not name.search(each)]
        yield from (Path(where, each) for each in there if name.search(each))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
    if not any(path.parent.iterdir()):
        path.parent.rmdir()
