"""Answers to calls, as models read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core.domain.tools import ToolOutcome
from prsm_core.kit.quotation import encode_data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.errors import PrsmError


def success(data: Mapping[str, Any], *, ends_turn: bool = False) -> ToolOutcome:
    """Return the outcome of an answer: JSON text with stable keys, and the data itself."""
    return ToolOutcome(text=encode_data(data), data=dict(data), ends_turn=ends_turn)


def failure(error: PrsmError) -> ToolOutcome:
    """Return the outcome of an error: what happened and what to do."""
    data = {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
    return ToolOutcome(text=encode_data(data), data=data, is_error=True)


def with_notice(outcome: ToolOutcome, notice: str) -> ToolOutcome:
    """Return an answer that tells the agent one thing more."""
    data = {**outcome.data, "notice": notice}
    return replace(outcome, text=encode_data(data), data=data)
