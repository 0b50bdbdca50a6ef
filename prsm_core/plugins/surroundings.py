"""What belongs to the process and not to a plugin: it is as before once a plugin is loaded."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGCHLD", "SIGURG", "SIGPIPE", "SIGWINCH", "SIGALRM")

_log = logging.getLogger(__name__)


class _Belonging(Record, frozen=True):
    name: str
    get: Callable[[], Any]
    put: Callable[[Any], object]


@contextmanager
def undisturbed(plugin: str) -> Iterator[None]:
    """Undo and log what plugin code changes of the process; signal handlers in the main thread."""
    belongings = list(_BELONGINGS)
    if threading.current_thread() is threading.main_thread():
        belongings += _HANDLERS
    before = [belonging.get() for belonging in belongings]
    try:
        yield
    finally:
        changed = []
        for belonging, value in zip(belongings, before, strict=True):
            if belonging.get() != value:
                belonging.put(value)
                changed.append(belonging.name)
        if changed:
            what = ", ".join(changed)
            _log.warning("plugin %s changed %s as it was loaded: put back", plugin, what)


def _of(module: Any, name: str) -> _Belonging:
    full = f"{module.__name__}.{name}"
    return _Belonging(full, partial(getattr, module, name), partial(setattr, module, name))


def _policy() -> Any:
    import asyncio  # not to be paid for by who only lists plugins

    return asyncio.get_event_loop_policy()


def _set_policy(policy: Any) -> None:
    import asyncio

    asyncio.set_event_loop_policy(policy)


def _folder() -> Path | None:
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def _enter(folder: Path | None) -> None:
    with suppress(OSError):  # it has gone: there is none to put back
        os.chdir(folder or "/")


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _set_handlers(handlers: list[logging.Handler]) -> None:
    logging.root.handlers[:] = handlers


def _handler(name: str) -> _Belonging:
    number = signal.Signals[name]

    def put(handler: Any) -> None:
        if handler is not None:  # else it was set in C, and Python cannot set it again
            signal.signal(number, handler)

    return _Belonging(f"the handler of {name}", partial(signal.getsignal, number), put)


_BELONGINGS = (
    _of(sys, "stdin"),
    _of(sys, "stderr"),
    _of(sys, "excepthook"),
    _of(sys, "unraisablehook"),
    _of(sys, "displayhook"),
    _of(threading, "excepthook"),
    _Belonging("the policy of event loops", _policy, _set_policy),
    _Belonging("the current folder", _folder, _enter),
    _Belonging("the umask", _umask, os.umask),
    _Belonging("sys.setrecursionlimit", sys.getrecursionlimit, sys.setrecursionlimit),
    _Belonging("logging.disable", lambda: logging.root.manager.disable, logging.disable),
    _Belonging("the level of all logging", lambda: logging.root.level, logging.root.setLevel),
    _Belonging("the handlers of all logging", lambda: list(logging.root.handlers), _set_handlers),
)
_HANDLERS = tuple(map(_handler, _SIGNALS))
