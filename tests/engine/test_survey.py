"""A survey tells of each provider what can be known of it, whatever is wrong with another."""

from __future__ import annotations

import asyncio
from typing import Any

from prsm_core.domain.models import ModelInfo
from prsm_core.engine.providers.listings import survey
from prsm_core.errors import PrsmError
from prsm_core.interfaces.provider import ProviderCapabilities, ProviderStatus

MODELS = (ModelInfo(model_id="m1"), ModelInfo(model_id="m2", hidden=True))


class Vendor:
    """A provider that answers `list_models` as it is told."""

    def __init__(self, answer, *, available=True):
        self.answer = answer
        self.status = ProviderStatus(available=available, version="1.0")
        self.asked = 0

    async def list_models(self):
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is None:
            await asyncio.Event().wait()
        return self.answer


class Registry:
    """What a survey uses of the real one."""

    def __init__(self, **vendors):
        self.vendors = vendors

    async def probe(self, name):
        found = self.vendors[name]
        if isinstance(found, PrsmError):
            raise found
        return found.status

    async def get(self, name):
        return self.vendors[name]

    def capabilities(self, _name):
        return ProviderCapabilities(enforcement="approval")


async def look(with_models=True, seconds=20.0, redact=str, **vendors):
    registry: Any = Registry(**vendors)
    return await survey(registry, vendors, with_models=with_models, seconds=seconds, redact=redact)


async def test_a_provider_that_works_is_told_with_its_models():
    report = (await look(a=Vendor(MODELS)))["a"]
    assert (report.status.version, report.models, report.models_problem) == ("1.0", MODELS, None)
    assert report.capabilities.enforcement == "approval"


async def test_one_that_is_broken_spoils_no_other():
    reports = await look(
        bad=PrsmError("it broke", hint="mend it"),
        odd=Vendor(ValueError("odd")),
        plain=Vendor(PrsmError("not logged in")),
        good=Vendor(MODELS),
    )
    assert (reports["bad"].status.reason, reports["bad"].status.hint) == ("it broke", "mend it")
    assert reports["odd"].models_problem == "provider odd failed in list_models: ValueError: odd"
    assert reports["plain"].models_problem == "not logged in"
    assert reports["good"].models == MODELS


async def test_no_secret_is_in_what_is_told_of_a_provider():
    reports = await look(
        redact=lambda text: text.replace("s3cret", "[redacted]"),
        bad=PrsmError("bad key s3cret", hint="not s3cret"),
        plain=Vendor(PrsmError("it said s3cret")),
    )
    assert "s3cret" not in str(reports)
    assert reports["plain"].models_problem == "it said [redacted]"


async def test_a_vendor_that_does_not_answer_is_not_waited_for():
    assert "no answer" in (await look(a=Vendor(None), seconds=0.01))["a"].models_problem


async def test_models_are_asked_for_only_where_they_are_wanted_and_can_be_had():
    idle, gone = Vendor(MODELS), Vendor(MODELS, available=False)
    await look(with_models=False, a=idle)
    await look(a=gone)
    assert idle.asked == gone.asked == 0
