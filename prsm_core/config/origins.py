"""Where the values of settings stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from prsm_core.domain.record import Labelled

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_core.config.document import KeyPath


class Places(Labelled, frozen=True, eq=False):
    """Where values stand; that two settings were written in different files makes no difference."""

    origin: Callable[[KeyPath], str] = lambda _: ""

    _labels: ClassVar[frozenset[str]] = frozenset({"origin"})
