"""Which of the calls that a vendor tells of were allowed, and which allowed ones it has not told.

A permission and the events of its call come by different ways: either may be first, and some
vendors give them different ids, or the permission none. So a call is known by its id where both
name it, else by its tool and its text: the command, or the paths. Each permission belongs to one
call. Of several like it, the newest is meant: an older one that was never told has ended unseen.
"""

from __future__ import annotations

from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.domain.tools import EDIT_TOOLS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prsm_core.domain.permissions import PermissionRequest

_PATH_KEYS = ("paths", "file_path", "path", "absolute_path", "notebook_path", "dir_path")


class AllowedCalls:
    """Owns what is allowed or told in one turn, and has no counterpart yet."""

    __slots__ = ("_ids", "_is_open", "_unasked", "_untold")

    def __init__(self, is_open: Callable[[str], bool]) -> None:
        """Match the calls of a turn that knows by their id which of them are open."""
        self._is_open = is_open
        self._untold: dict[str, PermissionRequest] = {}  # allowed, by the ledger's id
        self._unasked: dict[str, PermissionRequest] = {}  # run without a permission so far
        self._ids: dict[str, str] = {}  # of the ledger, by the vendor's where that is another

    def id_of(self, vendor_id: str) -> str:
        """Return the ledger's id of a call that the vendor names."""
        if vendor_id in self._ids:
            return self._ids[vendor_id]
        named = [one for one, asked in self._untold.items() if asked.call_id == vendor_id]
        return named[-1] if named else vendor_id

    def find(self, request: PermissionRequest) -> str | None:
        """Return the open call that a permission is for; None if there is none yet."""
        if request.call_id is not None and self._is_open(call_id := self.id_of(request.call_id)):
            self._unasked.pop(call_id, None)
            return call_id
        found = _newest_like(self._unasked, request)
        if found is not None:
            del self._unasked[found]
        return found

    def await_call(self, call_id: str, request: PermissionRequest) -> None:
        """Take note that a call is allowed which the vendor has not told of."""
        self._untold[call_id] = request

    def begin(self, vendor_id: str, told: PermissionRequest) -> str:
        """Take note that the vendor tells of a call; return the ledger's id for it."""
        call_id: str | None = self.id_of(vendor_id)
        if call_id not in self._untold:
            call_id = _newest_like(self._untold, told)
        if call_id is None:
            self._ids.pop(vendor_id, None)
            self._unasked[vendor_id] = told
            return vendor_id
        del self._untold[call_id]
        self._ids[vendor_id] = call_id
        return call_id

    def end(self, vendor_id: str) -> None:
        """Take note that the vendor tells the end of a call."""
        call_id = self.id_of(vendor_id)
        self._ids.pop(vendor_id, None)
        self._untold.pop(call_id, None)
        self._unasked.pop(call_id, None)


def _newest_like(calls: Mapping[str, PermissionRequest], wanted: PermissionRequest) -> str | None:
    return next((one for one in reversed(calls) if _are_alike(calls[one], wanted)), None)


def _are_alike(one: PermissionRequest, other: PermissionRequest) -> bool:
    """Whether tool and text of two requests are the same."""
    tools = {one.tool, other.tool}
    if len(tools) > 1 and not tools <= EDIT_TOOLS:
        return False
    if one.command is not None or other.command is not None:
        return _stripped(one.command) == _stripped(other.command)
    paths, others = set(_paths(one)), set(_paths(other))
    if paths and others:
        return not paths.isdisjoint(others)
    return dict(one.arguments) == dict(other.arguments)


def _stripped(command: str | None) -> str | None:
    return None if command is None else command.strip()


def _paths(request: PermissionRequest) -> Iterator[str]:
    """Yield the files that a request names, as seen from its folder."""
    told = [request.arguments.get(key) for key in _PATH_KEYS]
    for value in (request.paths, *told):
        for path in [value] if isinstance(value, str) else value or ():
            if isinstance(path, str):
                yield normpath(Path(request.cwd, path))
