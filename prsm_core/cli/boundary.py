"""The boundary for errors: one line for a person, an exit code for a script."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from prsm_core.errors import PrsmError
from prsm_core.kit.text import escape_prose
from prsm_core.loop.output import hurry_output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prsm_core.kit.exhaustion import Exhaustion

INTERRUPTED = 130
_NO_OUTPUT = frozenset({errno.ENOSPC, errno.EIO})  # the disk is full, the terminal has gone


def report(error: BaseException, *, debug: bool) -> int:
    """Say on stderr what happened and what to do; return the exit code."""
    if debug:
        traceback.print_exception(error)
    error = _cause(error)
    match error:
        case click.ClickException():
            error.show()
            return error.exit_code
        case KeyboardInterrupt() | click.Abort():
            hurry_output(even_results=True)
            _say("interrupted")
            return INTERRUPTED
        case BrokenPipeError():  # the reader has left, as `head` does
            _forget_stdout()
            return 1
        case OSError() if error.errno in _NO_OUTPUT and _is_of_output(error):
            _forget_stdout()
            _say(f"the output cannot be written: {error.strerror}", "send it somewhere else")
            return 1
    if (used_up := _exhaustion(error)) is not None:
        what = f"{error.message}: " if isinstance(error, PrsmError) else ""
        _say(f"{what}{used_up.message}", used_up.hint)
        return error.exit_code if isinstance(error, PrsmError) else 1
    if isinstance(error, PrsmError):
        _say(error.message, error.hint)
        return error.exit_code
    what = f"internal error: {type(error).__name__}: {error}"
    _say(what, None if debug else "prsm --debug … shows the traceback")
    return 1


def _is_of_output(error: OSError) -> bool:
    """Return whether an error came from printing.

    A write to one of our own open files names no file either; then our disk is full.
    """
    if error.filename is not None:
        return False
    from prsm_core.kit.exhaustion import find_exhaustion
    from prsm_core.kit.places import own_folders

    return error.errno == errno.EIO or find_exhaustion(own_folders(os.environ).data) is None


def _exhaustion(error: BaseException) -> Exhaustion | None:
    if not isinstance(error, Exception):
        return None
    from prsm_core.kit.exhaustion import exhaustion_of

    return exhaustion_of(error)


def _cause(error: BaseException) -> BaseException:
    """Pick the error to report from a group: an interrupt, one of ours, or the first.

    click turns every EOFError into Abort; a prompt without input has one as its cause.
    """
    if isinstance(error, click.Abort) and isinstance(error.__cause__, EOFError):
        return error.__cause__
    leaves = list(_leaves(error))
    for kind in (KeyboardInterrupt, PrsmError):
        for leaf in leaves:
            if isinstance(leaf, kind):
                return leaf
    return leaves[0]


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _say(message: str, hint: str | None = None) -> None:
    # Only now: every start of `prsm` imports this module.
    from prsm_core.cli.saying import say
    from prsm_core.config.secrets import environment_secrets
    from prsm_core.permissions.redaction import Redactor

    redact = Redactor(environment_secrets(os.environ)).text
    with suppress(OSError):  # the terminal has gone: there is nobody to tell
        say(f"prsm: {escape_prose(redact(message))}", err=True)
        if hint:
            say(f"hint: {escape_prose(redact(hint))}", err=True)


def _forget_stdout() -> None:
    """Point stdout to nowhere so that the interpreter's last flush is silent."""
    if sys.stdout is None:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
