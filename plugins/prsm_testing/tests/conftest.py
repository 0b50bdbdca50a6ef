from __future__ import annotations

import pytest

# Before the contract is imported: a failing assert there shall show its values too.
pytest.register_assert_rewrite("prsm_testing.store_contract")
