"""The list of models that Codex keeps, for when it cannot be asked."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from prsm_codex import provider
from prsm_codex.provider import build
from prsm_testing.doubles import open_services

from prsm_core.errors import ProviderNotAvailableError

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp()
LEVELS = [{"effort": "low", "description": ""}, {"effort": "high", "description": ""}]
SHOWN = {
    "slug": "m-1",
    "display_name": "M 1",
    "visibility": "list",
    "context_window": 272000,
    "supported_reasoning_levels": LEVELS,
}
HIDDEN = {**SHOWN, "slug": "m-0", "visibility": "hide"}


def kept(folder, fetched_at="2026-11-21T11:00:00Z", **changes):
    path = folder / provider.CACHE
    path.write_text(json.dumps({"fetched_at": fetched_at, "models": [HIDDEN, SHOWN], **changes}))
    return path


@pytest.mark.requirement("E92")
def test_only_what_is_to_be_listed_is_read_with_its_reasoning_levels(tmp_path):
    (model,) = provider.cached(kept(tmp_path), NOW)
    assert (model.model_id, model.display_name) == ("m-1", "M 1")
    assert model.context_window == 272000
    assert model.reasoning_efforts == ("low", "high")


@pytest.mark.requirement("E92")
@pytest.mark.parametrize("fetched", ["2026-11-20T11:59:00Z", "2026-11-20T11:59:00"])
def test_a_list_that_is_older_than_a_day_is_marked(tmp_path, fetched):
    (model,) = provider.cached(kept(tmp_path, fetched), NOW)
    assert model.display_name == "M 1 (as of 2026-11-20)"


@pytest.mark.parametrize(
    "changes", [{"models": 3}, {"models": [3]}, {"models": [{"visibility": "list"}]}]
)
def test_a_list_that_cannot_be_read_is_none(tmp_path, changes):
    assert provider.cached(kept(tmp_path, **changes), NOW) == ()
    assert provider.cached(kept(tmp_path, "yesterday"), NOW) == ()
    assert provider.cached(tmp_path / "nothing.json", NOW) == ()


@pytest.mark.requirement("E92")
async def test_where_codex_cannot_be_asked_the_kept_list_stands_in(tmp_path, monkeypatch):
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    async with open_services(tmp_path / "state") as services:
        provider = build({"command": "no-such-codex"}, services)
        with pytest.raises(ProviderNotAvailableError):
            await provider.list_models()
        kept(tmp_path)
        (model,) = await provider.list_models()
        await provider.aclose()
    assert model.model_id == "m-1"
