"""What a contract expects of a refusal: errors of PRSM are told apart by their codes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from prsm_core.errors import PrsmError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def raises_code(
    code: str, kind: type[PrsmError] = PrsmError
) -> Iterator[pytest.ExceptionInfo[PrsmError]]:
    """Check that the block raises an error with this code."""
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.code == code, caught.value.code
