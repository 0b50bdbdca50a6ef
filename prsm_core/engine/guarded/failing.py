"""Describe failures in words that can be kept, whatever a plugin raised or yielded."""

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
    """Return an error in words, by its type if it cannot describe itself."""
    name = type(error).__name__
    try:
        text = error.message if isinstance(error, PrsmError) else f"{name}: {error}"
        return str.__str__(text)  # a TypeError where it is no text
    except Exception as worse:  # noqa: BLE001 - whatever a plugin's error does, it is told
        return f"{name}, which cannot say what it is ({type(worse).__name__})"


def keepable(value: object, redact: Callable[[Any], Any]) -> str:
    """Return a text without secrets, or a description of its type if it cannot be kept."""
    if not isinstance(value, str):
        return "" if value is None else f"[a {type(value).__name__}, which is no text]"
    try:
        return str.__str__(redact(sanitize(str.__str__(value))))
    except Exception as error:  # noqa: BLE001 - it is not kept, and that is told
        return f"[left out: its secrets could not be taken out ({type(error).__name__})]"


def is_unfit(error: BaseException) -> bool:
    """Return whether the contents of a write failed, not the ledger."""
    if isinstance(error, StoreError):
        return error.code == UNFIT
    return isinstance(error, Exception) and not isinstance(error, PrsmError)


def breaks_ledger(error: BaseException) -> bool:
    """Return whether an error means that nothing can be written any more."""
    return (
        isinstance(error, StoreError) and not isinstance(error, FencedError) and not is_unfit(error)
    )


class Soundness:
    """Owns the error that broke the ledger. After it, nothing more is written.

    Nobody may be told what memory knows and the ledger lacks. So the agents stay as the ledger has
    them, even if the next write would work, and another engine continues them.
    """

    def __init__(self, on_broken: Callable[[StoreError], None]) -> None:
        self._on_broken = on_broken  # is told once
        self._error: StoreError | None = None

    @property
    def is_broken(self) -> bool:
        """Whether a write has failed."""
        return self._error is not None

    def failed(self, error: Exception) -> None:
        """Note a failed write; a mere refusal breaks nothing."""
        if self._error is None and isinstance(error, StoreError) and breaks_ledger(error):
            self._error = error
            self._on_broken(error)

    def check(self) -> None:
        """Raise the error that broke the ledger, if one has."""
        if (error := self._error) is not None:
            raise StoreError(error.message, hint=error.hint, code=error.code) from error

    def mend(self) -> None:
        """Let the next run try to write: the failed one never began."""
        self._error = None


def said(text: Callable[[], object], redact: Callable[[Any], Any]) -> str:
    """Return the text that `text` yields, as far as it can be kept, or its error."""
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
