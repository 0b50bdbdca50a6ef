"""What is told of a failure: words that can be kept, whatever a plugin has raised or yielded."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core.errors import FencedError, PrsmError, StoreError
from prsm_core.kit.sanitize import sanitize

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_core.domain.agents import AgentResult

UNFIT = "unfit"  # the code of a StoreError whose step cannot be written, while others can
_log = logging.getLogger("prsm.engine")


def describe(error: BaseException) -> str:
    """Return an error in words; one that cannot say what it is is known by its type."""
    name = type(error).__name__
    try:
        text = error.message if isinstance(error, PrsmError) else f"{name}: {error}"
        return str.__str__(text)  # a TypeError where it is no text
    except Exception as worse:  # noqa: BLE001 - whatever a plugin's error does, it is told
        return f"{name}, which cannot say what it is ({type(worse).__name__})"


def keepable(value: object, redact: Callable[[Any], Any]) -> str:
    """Return a text that can be kept without its secrets; what cannot be is told by its type."""
    if not isinstance(value, str):
        return "" if value is None else f"[a {type(value).__name__}, which is no text]"
    try:
        return str.__str__(redact(sanitize(str.__str__(value))))
    except Exception as error:  # noqa: BLE001 - it is not kept, and that is told
        return f"[left out: its secrets could not be taken out ({type(error).__name__})]"


def is_unfit(error: BaseException) -> bool:
    """Return whether something failed for what was to be written, not for the ledger."""
    if isinstance(error, StoreError):
        return error.code == UNFIT
    return isinstance(error, Exception) and not isinstance(error, PrsmError)


def breaks_ledger(error: BaseException) -> bool:
    """Return whether an error says that nothing can be written any more."""
    return (
        isinstance(error, StoreError) and not isinstance(error, FencedError) and not is_unfit(error)
    )


class Soundness:
    """Owns the error that broke the ledger: once it could not be written, nothing more is.

    What memory knows and the ledger lacks must be told to nobody. So the agents stay as they are in
    the ledger, even if the next write would work, and another engine goes on with them.
    """

    __slots__ = ("_error", "_on_broken")

    def __init__(self, on_broken: Callable[[StoreError], None]) -> None:
        self._on_broken = on_broken  # is told once
        self._error: StoreError | None = None

    @property
    def is_broken(self) -> bool:
        """Whether a write has failed."""
        return self._error is not None

    def failed(self, error: Exception) -> None:
        """Take note of a write that has failed; what was merely refused breaks nothing."""
        if self._error is None and isinstance(error, StoreError) and breaks_ledger(error):
            self._error = error
            self._on_broken(error)

    def check(self) -> None:
        """Raise the error that broke the ledger, if one has."""
        if (error := self._error) is not None:
            raise StoreError(error.message, hint=error.hint, code=error.code) from error

    def mend(self) -> None:
        """Let the next run try to write: of the one that failed nothing has begun."""
        self._error = None


def said(text: Callable[[], object], redact: Callable[[Any], Any]) -> str:
    """Return what `text` returns, as far as it can be kept; what it raises is told instead."""
    try:
        return keepable(text(), redact)
    except Exception as error:  # noqa: BLE001 - what a provider yielded is no text
        return f"[what it said is no text ({type(error).__name__})]"


def plain_result(
    result: AgentResult, error: BaseException, redact: Callable[[Any], Any]
) -> AgentResult:
    """Return a failure with what can be kept of a result that cannot be written."""
    _log.error("the end of an agent cannot be written", exc_info=error)
    why = keepable(result.error, redact) or f"its result cannot be kept: {describe(error)}"
    return replace(
        result,
        success=False,
        summary=keepable(result.summary, redact),
        artifacts=(),
        evidence_by=(),
        error=keepable(why, redact),
        error_kind=keepable(result.error_kind, redact) or "internal",
        evidence_gaps=(),
    )
