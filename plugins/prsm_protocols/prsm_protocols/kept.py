"""The pages that agents are pinned to, each version by its hash, as they were written.

They are kept before the first agent's label names them, and read by whoever goes on with it. What
was changed there is found by the hash, and is refused.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core import OrchestrationError
from prsm_protocols.compiled import compile_pages
from prsm_protocols.library import read_folder
from prsm_protocols.places import kept_folder
from prsm_protocols.problems import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_protocols.compiled import Protocol


class Kept:
    """Owns the folder of kept versions; `folder` returns where that is now."""

    def __init__(self, folder: Callable[[], Path] = kept_folder) -> None:
        self._folder = folder
        self._known: dict[tuple[Path, str], Protocol] = {}  # by the folder of all, and the id

    def folder(self, digits: str) -> Path:
        """Return the folder that has the pages of a version as NAME.md."""
        return self._folder() / digits

    def put(self, protocol: Protocol) -> None:
        """Keep the pages of a protocol; blocks. Doing it again changes nothing."""
        folder = self.folder(protocol.hash)
        if not folder.is_dir():
            _write(folder, protocol)
        self._known[self._folder(), protocol.id] = protocol

    def find(self, identity: str) -> Protocol | None:
        """Return what `get` does, None where it would have to be read."""
        return self._known.get((self._folder(), identity))

    def get(self, identity: str) -> Protocol:
        """Return a protocol by its id; may block. Raises OrchestrationError (`protocol_lost`)."""
        if (known := self.find(identity)) is not None:
            return known
        name, _, digits = identity.rpartition("@")
        folder = self.folder(digits)
        try:
            found = compile_pages(read_folder(folder))[0].get(name)
        except ProtocolError as error:
            raise _lost(identity, folder, error.message) from error
        if found is None or found.id != identity:
            raise _lost(identity, folder, "missing" if found is None else "other than it was")
        self._known[self._folder(), identity] = found
        return found


def _write(folder: Path, protocol: Protocol) -> None:
    """Write a version aside and put it in its place, whole; another process may be first."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".new-"))
    try:
        for name, text in protocol.sources.items():
            with (aside / f"{name}.md").open("w", encoding="utf-8", newline="\n") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        try:
            aside.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _lost(identity: str, folder: Path, why: str) -> OrchestrationError:
    return OrchestrationError(
        f"the protocol {identity} cannot be read from {folder}: {why}",
        hint="ask the person: the agent is pinned to a version that is gone, and has to be "
        "spawned again under the one of today",
        code="protocol_lost",
    )
