"""The private home, which gets its name once Codex has started in it.

Codex makes its databases when it first starts in a home. Killed over that, it leaves one that says
for a quarter of an hour that somebody is filling it, and no Codex starts there. So it starts first
in a folder aside, and by its answer to `initialize` the databases are whole. It then keeps to the
path that it was started with: that one is ended before the folder gets the home's name.

A folder aside is locked by the engine that makes it. The kernel lets go of the lock however the
engine ends, and the next one removes the folder.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import shutil
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_codex.app_server import HOME, AppServer
from prsm_core.kit import make_private

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prsm_codex.config import CodexConfig
    from prsm_codex.features import Features
    from prsm_core import ProviderServices

_ASIDE = f"{HOME}-in-the-making-"
_HAS_A_HOME = (errno.ENOTEMPTY, errno.EEXIST)  # what a rename onto one says


async def make_home(config: CodexConfig, services: ProviderServices, features: Features) -> None:
    """Make the private home where there is none, by a start of Codex that is ended again.

    Of engines that make it at the same time one wins, and the others take its home. Raises
    ProviderNotAvailableError where Codex cannot be started; there is no home then.
    """
    state_dir = make_private(services.state_dir)
    await asyncio.to_thread(_remove_leftovers, state_dir)
    home = state_dir / HOME
    if home.is_dir():
        return
    with _folder_aside(state_dir) as folder:
        server = await AppServer.start(config, services, features, None, folder)
        await server.aclose()
        _give_name(folder, home)


def _give_name(folder: Path, home: Path) -> None:
    try:
        folder.rename(home)
    except OSError as error:
        if error.errno not in _HAS_A_HOME:
            raise


@contextmanager
def _folder_aside(state_dir: Path) -> Iterator[Path]:
    """Lend out a folder that is locked; what has kept its name is removed."""
    with ExitStack() as stack:
        folder = _make_locked(state_dir, stack)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)  # what stays the next start removes


def _make_locked(state_dir: Path, stack: ExitStack) -> Path:
    """Make a folder and lock it: before that another engine may take it for left over."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_ASIDE, dir=state_dir))
        with ExitStack() as until_locked:
            if _lock(folder, until_locked) and folder.is_dir():
                stack.push(until_locked.pop_all())
                return folder


def _remove_leftovers(state_dir: Path) -> None:
    """Remove what engines have left that were killed while they made a home."""
    for folder in state_dir.glob(f"{_ASIDE}*"):
        with ExitStack() as stack:
            if _lock(folder, stack):
                shutil.rmtree(folder, ignore_errors=True)  # as above


def _lock(folder: Path, stack: ExitStack) -> bool:
    """Return whether nobody has the folder; it is then locked until `stack` is left."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False  # it was removed, or has its name by now
    stack.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
