"""Deletes what providers and logs keep of a session outside the ledger.

What a provider keeps of an agent bears, somewhere in its name, the agent's id or the token of its
thread, or its plugin knows how to find it: see `ProviderSpec`.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.errors import PrsmError
from prsm_core.plugins.guard import Guest
from prsm_core.plugins.objects import load_object

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from prsm_core.interfaces.provider import ProviderSpec

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
