"""The command in processes, as the tests of the core's own commands have it."""

from tests.cli.conftest import (
    is_fresh,
    prsm,
    prsm_process,
    start_prsm,
    told_of_a_hang_up,
    workspace,
)

__all__ = ["is_fresh", "prsm", "prsm_process", "start_prsm", "told_of_a_hang_up", "workspace"]
