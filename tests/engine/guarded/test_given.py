"""The tables of what plugins give: no field of a record is left out of its check."""

from __future__ import annotations

from typing import get_args

import pytest

from prsm_core.domain.models import ModelInfo
from prsm_core.domain.turns import ProviderEvent, ToolCallFinished
from prsm_core.engine.guarded.provider import CAPABILITIES, EVENTS, MODELS, STATUS
from prsm_core.interfaces.provider import ProviderCapabilities
from prsm_core.plugins.candidate import RECORDS
from prsm_core.plugins.values import first_problem

TABLES = (CAPABILITIES, EVENTS, MODELS, RECORDS, STATUS)
CHECKED = [(cls, table) for table in TABLES for cls in table]


@pytest.mark.parametrize(("cls", "table"), CHECKED, ids=lambda each: getattr(each, "__name__", ""))
def test_every_field_of_a_record_is_checked(cls, table):
    assert set(table[cls]) == set(cls.__struct_fields__)


def test_every_event_has_a_table():
    assert set(EVENTS) == set(get_args(ProviderEvent))


@pytest.mark.parametrize(
    ("value", "table"),
    [
        (ToolCallFinished("c", "completed", exit_code="0"), EVENTS),  # type: ignore[arg-type]
        (ProviderCapabilities(enforcement="pre-tool"), CAPABILITIES),
        (ProviderCapabilities(parameters=frozenset({"top_p"})), CAPABILITIES),
        (ProviderCapabilities(tokens_told="often"), CAPABILITIES),
        (ProviderCapabilities(cost_told=5), CAPABILITIES),  # type: ignore[arg-type]
        (ProviderCapabilities(asks_edits="yes"), CAPABILITIES),  # type: ignore[arg-type]
        (ModelInfo(model_id="m", aliases=5), MODELS),  # type: ignore[arg-type]
    ],
)
def test_a_field_that_tells_of_evidence_budgets_or_names_is_what_it_says(value, table):
    assert first_problem(value, table) is not None
