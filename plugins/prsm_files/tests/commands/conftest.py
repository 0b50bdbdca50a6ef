"""The commands in processes, as the tests of the core's own commands have them."""

from tests.cli.conftest import (
    is_fresh,
    ledger,
    prsm,
    prsm_process,
    session,
    start_prsm,
    told_of_a_hang_up,
    workspace,
)

__all__ = [
    "is_fresh",
    "ledger",
    "prsm",
    "prsm_process",
    "session",
    "start_prsm",
    "told_of_a_hang_up",
    "workspace",
]
