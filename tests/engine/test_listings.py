"""What providers list is asked for once and kept; a file that is torn or wrong is none."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core.config.schema import Settings
from prsm_core.domain.models import ModelInfo
from prsm_core.engine.providers.listings import KEPT_SECONDS, Listings
from prsm_core.plugins.absent import PRESENT

FULL = ModelInfo(
    model_id="m",
    display_name="M",
    context_window=1000,
    reasoning_efforts=("low",),
    hidden=True,
    aliases=("em",),
)


class Asked:
    """A provider that counts how often it is asked."""

    def __init__(self, *models):
        self.models, self.times = models, 0

    async def list_models(self):
        self.times += 1
        return self.models

    async def knows_model(self, model):
        return False


class Registry:
    """The providers by name."""

    def __init__(self, **providers):
        self.providers = providers
        self.names = frozenset(providers)
        self.absent = PRESENT

    async def get(self, name):
        return self.providers[name]


@pytest.fixture
def place(tmp_path):
    """Return how to make the listings of another run, at a time, under some settings."""

    def make(provider, *, settings=None, clock=None):
        registry: Any = Registry(codex=provider)
        given = Settings.of(settings or {})
        return Listings(registry, given, clock or FakeClock(), tmp_path / "models.json")

    return SimpleNamespace(make=make, file=tmp_path / "models.json")


async def takes(listings, model):
    await listings.check([f"codex/{model}"], "codex")
    return listings.names.is_taken("codex", model)


async def test_a_list_is_kept_for_the_next_run(place):
    provider = Asked(FULL)
    assert await takes(place.make(provider), "m")
    later = place.make(provider)
    assert await takes(later, "em")
    assert provider.times == 1
    assert (await later.listing(["codex"], 1.0))["codex"].models == (FULL,)


async def test_only_a_list_of_now_says_what_there_is_not(place):
    await place.make(Asked(FULL)).listing(["codex"], 1.0)
    provider = Asked(FULL, ModelInfo(model_id="new"))
    listings = place.make(provider)
    assert await takes(listings, "new"), "the vendor has it by now"
    assert not await takes(listings, "nope")
    assert provider.times == 1
    assert listings.names.listed["codex"].is_fresh


async def test_what_the_configuration_names_is_not_asked_for(place):
    provider = Asked(FULL)
    settings = {
        "providers": {"codex": {"models": ["mine"]}},
        "model_registry": {"tuned": {"provider": "codex"}},
    }
    listings = place.make(provider, settings=settings)
    for model in ("default", "mine", "tuned"):
        assert await takes(listings, model)
    assert provider.times == 0


@pytest.mark.parametrize("change", ["old", "settings"])
async def test_a_list_of_another_day_or_of_other_settings_is_none(place, change):
    provider, clock = Asked(FULL), FakeClock()
    await takes(place.make(provider, clock=clock), "m")
    settings = {"providers": {"codex": {"base_url": "http://x"}}} if change == "settings" else {}
    if change == "old":
        kept = json.loads(place.file.read_text())
        kept["codex"]["at"] -= KEPT_SECONDS + 1
        place.file.write_text(json.dumps(kept))
    await takes(place.make(provider, settings=settings, clock=clock), "m")
    assert provider.times == 2


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[]",
        lambda text: "[" * 100_000,
        lambda text: json.dumps({"codex": 5, "x": None}),
        lambda text: json.dumps({"codex": {**json.loads(text)["codex"], "models": 5}}),
        lambda text: json.dumps({"codex": {**json.loads(text)["codex"], "models": [5]}}),
        lambda text: json.dumps(
            {"codex": {**json.loads(text)["codex"], "models": [{"model_id": 7}]}}
        ),
        lambda text: json.dumps({"codex": {**json.loads(text)["codex"], "at": "noon"}}),
        lambda text: json.dumps({"codex": {**json.loads(text)["codex"], "at": 1e300}}),
    ],
)
async def test_a_file_that_is_torn_or_wrong_is_as_good_as_none(place, spoil):
    provider = Asked(FULL)
    await takes(place.make(provider), "m")
    place.file.write_text(spoil(place.file.read_text()))
    assert await takes(place.make(provider), "m")
    assert not await takes(place.make(provider), "nope")
    assert provider.times >= 2
    assert await takes(place.make(provider), "em"), "it is whole again"


async def test_a_file_that_cannot_be_written_is_not_fatal(place):
    place.file.mkdir()
    provider = Asked(FULL)
    assert await takes(place.make(provider), "m")
    assert not await takes(place.make(provider), "nope")


class Slow(Asked):
    """A provider that takes its time, in virtual seconds."""

    def __init__(self, clock, seconds, *models):
        super().__init__(*models)
        self.clock, self.seconds = clock, seconds

    async def list_models(self):
        await self.clock.sleep(self.seconds)
        return await super().list_models()

    async def knows_model(self, model):
        await self.clock.sleep(self.seconds)
        return model == "hidden"


def told(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "prsm.told"]


@pytest.mark.requirement("E64")
async def test_a_provider_that_is_slow_to_list_its_models_is_named_within_a_second(place, caplog):
    clock = FakeClock()
    caplog.set_level("INFO", "prsm.told")
    begun, times = clock.now(), []

    def note(record):
        times.append(clock.now() - begun)
        return True

    caplog.handler.addFilter(note)
    assert await takes(place.make(Slow(clock, 5, FULL), clock=clock), "hidden")
    assert told(caplog) == [
        "waiting for codex's list of models (up to 20 s)",
        "waiting for codex to say whether it has model 'hidden' (up to 20 s)",
    ]
    assert times[0] < 1
    assert times[1] < 6


async def test_a_provider_that_lists_its_models_at_once_is_not_spoken_of(place, caplog):
    caplog.set_level("INFO", "prsm.told")
    clock = FakeClock()
    assert await takes(place.make(Slow(clock, 0.2, FULL), clock=clock), "m")
    await clock.sleep(100)
    assert told(caplog) == []


async def test_a_provider_that_never_lists_its_models_is_given_up_by_name(place, caplog):
    clock = FakeClock()
    assert not await takes(place.make(Slow(clock, 1e6, FULL), clock=clock), "m")
    assert "provider codex lists no models: no answer within 20 s" in caplog.text
