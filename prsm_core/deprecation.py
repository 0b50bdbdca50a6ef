"""What goes with a later version works until then, and each plugin that uses it is told once.

A module whose names have moved stays at its old place for one minor version, and this is all of it:

    __getattr__ = forwards(__name__, to="prsm_core.kit.section", goes_in="0.2")

Where only some have moved, below what is still there:

    __getattr__ = forwards(__name__, {"old": "prsm_core.kit.section:new"}, goes_in="0.2")

Anything else that goes, a field or an argument, is a Deprecated with a name, and `tell` where it is
used. A hook that got another name is in `OLD` of hookspecs.
"""

from __future__ import annotations

from msgspec import Struct

TYPE_CHECKING = False  # this is imported by modules that cost nothing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType
    from typing import Any

_IMPORTERS = frozenset({"importlib", "_frozen_importlib", "_frozen_importlib_external"})

_MISSING = object()

_told: set[tuple[str, str]] = set()  # what, and the top package of who uses it


class Deprecated(Struct, frozen=True, kw_only=True):
    """Something public that goes.

    what: Its whole name: prsm_core.kit.section.read_section.
    goes_in: The minor version that is without it: "0.3".
    instead: What takes its place; None: nothing does.
    """

    what: str
    goes_in: str
    instead: str | None = None

    def __str__(self) -> str:
        """Return what is told of it."""
        cure = "nothing takes its place" if self.instead is None else f"use {self.instead}"
        return f"{self.what} goes in prsm-core {self.goes_in}: {cure}"


def forwards(
    module: str,
    names: Mapping[str, str] | None = None,
    *,
    goes_in: str,
    to: str | None = None,
    dropped: Mapping[str, str] | None = None,
) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module that names have left.

    Args:
        module: The module, `__name__`.
        names: Each name that goes, and where it is now, "module:name".
        goes_in: The minor version that is without them.
        to: The module that has all other public names now.
        dropped: Names whose place nothing takes, and where they are until then.
    """

    def get(name: str) -> Any:
        found = {**(dropped or {}), **(names or {})}.get(name)
        if found is None and to is not None and not name.startswith("_"):
            found = f"{to}:{name}"
        home, _, new = (found or ":").partition(":")
        value = _value(home, new)
        if value is _MISSING:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        instead = None if name in (dropped or {}) else f"{home}.{new}"
        tell(Deprecated(what=f"{module}.{name}", goes_in=goes_in, instead=instead), beyond=module)
        return value

    return get


def _value(module: str, name: str) -> Any:
    import importlib

    return getattr(importlib.import_module(module), name, _MISSING) if module else _MISSING


def tell(gone: Deprecated, *, beyond: str, user: object = None) -> None:
    """Warn of a use of what goes, once for each top package that uses it.

    The warning has the line of the user, and names its distribution where that has plugins.

    Args:
        gone: What is used.
        beyond: The module that notices: the user is the first one outside it on the stack.
        user: The function that is one, where it is not on the stack: a hook.
    """
    import sys

    module, path, line = _user(sys._getframe(1), beyond) if user is None else _place(user)
    root = module.partition(".")[0]
    if (gone.what, root) not in _told:
        _warn(gone, module, path, line)
        _told.add((gone.what, root))


def _place(function: Any) -> tuple[str, str, int]:
    """Return module, file and line of a function."""
    code = getattr(function, "__code__", None)
    module = str(getattr(function, "__module__", ""))
    return (module, code.co_filename, code.co_firstlineno) if code else (module, module, 0)


def _user(frame: FrameType | None, beyond: str) -> tuple[str, str, int]:
    """Return module, file and line of the first frame that only uses."""
    passed = {__name__, beyond}
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module not in passed and module.partition(".")[0] not in _IMPORTERS:
            return module, frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return "", "", 0


def _warn(gone: Deprecated, module: str, path: str, line: int) -> None:
    import logging
    import warnings

    from prsm_core.distributions import distribution_of

    owner = distribution_of(module) or module or "somebody"
    text = f"{owner}: {gone}"
    # The log is for whoever runs the plugin, the warning for whoever writes and tests it.
    logging.getLogger("prsm.plugins").info("%s (%s, line %s)", text, path, line)
    warnings.warn_explicit(text, DeprecationWarning, path, line, module=module)
