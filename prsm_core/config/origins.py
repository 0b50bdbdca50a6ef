"""Where the values of settings stand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_core.config.document import KeyPath


@dataclass(frozen=True, slots=True)
class Places:
    """Where values stand; that two settings were written in different files makes no difference."""

    origin: Callable[[KeyPath], str] = field(default=lambda _: "", compare=False)
