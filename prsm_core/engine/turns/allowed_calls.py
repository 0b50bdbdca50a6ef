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

from msgspec import Struct

from prsm_core.domain.tools import EDIT_TOOLS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prsm_core.domain.permissions import PermissionRequest

_PATH_KEYS = ("paths", "file_path", "path", "absolute_path", "notebook_path", "dir_path")


class _Call(Struct):
    request: PermissionRequest
    is_asked: bool = False
    asked_as: str | None = None  # the id that its permission gave
    told_as: str | None = None  # the id by which the vendor tells of it

    @property
    def is_doubtful(self) -> bool:
        """Whether its permission may be that of another call like it."""
        return self.is_asked and self.told_as not in {None, self.asked_as}


class AllowedCalls:
    """Owns the open calls of one turn, by the id that the ledger has for each."""

    __slots__ = ("_open", "_refused")

    def __init__(self) -> None:
        self._open: dict[str, _Call] = {}
        self._refused: list[PermissionRequest] = []  # asked about, and not allowed so far

    def is_told(self, vendor_id: str) -> bool:
        """Return whether the vendor has told of an open call by this id."""
        return any(call.told_as == vendor_id for call in self._open.values())

    def id_of(self, vendor_id: str) -> str | None:
        """Return the open call that the vendor means; None if it is none."""
        told = (one for one, call in self._open.items() if call.told_as == vendor_id)
        return next(told, None) or self._newest(
            lambda call: call.told_as is None and call.asked_as == vendor_id
        )

    def ask(self, request: PermissionRequest) -> None:
        """Take note that a permission is asked for: until it is given its call may not run."""
        self._refused.append(request)

    def is_refused(self, call_id: str) -> bool:
        """Return whether an open call was asked about and not allowed."""
        call = self._open.get(call_id)
        if call is None or call.is_asked:
            return False
        return any(
            one.call_id == call.told_as or _are_alike(call.request, one) for one in self._refused
        )

    def find_asked(self, request: PermissionRequest) -> str | None:
        """Return the open call that a permission is given for; None if there is none yet."""
        self._refused = [one for one in self._refused if one is not request]
        wanted = request.call_id
        found = None
        if wanted is not None:
            found = self._newest(
                lambda call: wanted == (call.asked_as if call.is_asked else call.told_as)
            )
        found = found or self._newest(
            lambda call: not call.is_asked and _are_alike(call.request, request)
        )
        if found is not None:
            self._open[found].is_asked, self._open[found].asked_as = True, wanted
        return found

    def find_told(self, vendor_id: str, told: PermissionRequest) -> str | None:
        """Return the allowed call that the vendor tells of now; None if it is no such."""
        found = self._newest(
            lambda call: call.told_as is None and call.asked_as == vendor_id
        ) or self._newest(lambda call: call.told_as is None and _are_alike(call.request, told))
        if found is not None:
            self._open[found].told_as = vendor_id
        return found

    def allow(self, call_id: str, request: PermissionRequest) -> None:
        """Take note of a call that is allowed, and that the vendor has not told of."""
        self._open[call_id] = _Call(request, is_asked=True, asked_as=request.call_id)

    def begin(self, call_id: str, vendor_id: str, told: PermissionRequest) -> None:
        """Take note of a call that the vendor tells of, and that nobody has allowed so far."""
        self._open[call_id] = _Call(told, told_as=vendor_id)

    def end(self, call_id: str) -> None:
        """Take note that a call has ended.

        One without a permission was refused, or it was it that a permission of another like it was
        for: that waits for its own.
        """
        call = self._open.pop(call_id, None)
        if call is None or call.is_asked or self._take_refusal(call, by_id=True):
            return
        other = self._newest(lambda one: one.is_doubtful and _are_alike(one.request, call.request))
        if other is not None:
            self._open[other].is_asked, self._open[other].asked_as = False, None
        else:
            self._take_refusal(call, by_id=False)

    def _take_refusal(self, call: _Call, *, by_id: bool) -> bool:
        """Forget the refusal of a call; return whether there was one."""
        for one in reversed(self._refused):
            is_its = one.call_id == call.told_as if by_id else _are_alike(one, call.request)
            if is_its:
                self._refused.remove(one)
                return True
        return False

    def _newest(self, is_meant: Callable[[_Call], bool]) -> str | None:
        return next((one for one, call in reversed(self._open.items()) if is_meant(call)), None)


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
