"""Runs a test as a user whom the permissions of files hold, though it is root who runs it.

The rights of root over files are taken from one thread, and from what it starts.
"""

from __future__ import annotations

import ctypes
import os
import threading
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_RIGHTS = (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
_PR_CAPBSET_DROP = 24
_VERSION = 0x20080522  # two sets of 32 rights each


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Rights(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable"))


def as_plain_user(test: Callable[..., None]) -> Callable[..., None]:
    """Return a test that has no rights but those that permissions give."""

    @wraps(test)
    def tested(*args: Any, **named: Any) -> None:
        if os.geteuid() != 0:
            test(*args, **named)
            return
        raised: list[BaseException] = []

        def run() -> None:
            try:
                _drop_rights()
                test(*args, **named)
            except BaseException as error:  # noqa: BLE001 - raised again below
                raised.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if raised:
            raise raised[0]

    return tested


def _drop_rights() -> None:
    """Take the rights from this thread; programs that it starts do not get them again."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, rights = _Header(_VERSION, 0), (_Rights * 2)()
    _check(libc.capget(ctypes.byref(header), rights))
    for number in _RIGHTS:
        _check(libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0))
        for name in ("effective", "permitted", "inheritable"):
            setattr(rights[0], name, getattr(rights[0], name) & ~(1 << number))
    _check(libc.capset(ctypes.byref(header), rights))


def _check(code: int) -> None:
    if code:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
