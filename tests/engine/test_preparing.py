"""What a provider begins before there is an engine, and what becomes of it."""

from __future__ import annotations

import asyncio
import sys

import pytest
from prsm_testing.doubles import until

from prsm_core.config import Settings, resolve_paths
from prsm_core.engine.providers.registry import open_owned
from prsm_core.errors import ProviderNotAvailableError, SessionOwnedError
from prsm_core.interfaces.provider import (
    Provider,
    ProviderCapabilities,
    ProviderSpec,
    ProviderStatus,
)
from prsm_core.kit.clocks import SystemClock


class Prepared(Provider):
    """A provider that notes what was begun, and hangs or fails over it where it is told to."""

    def __init__(self, settings, services):
        self.how = settings.get("how")
        self.services = services
        self.begun, self.ended = False, False
        self.capabilities = ProviderCapabilities(supports_master=self.how != "cannot lead")

    def __getattribute__(self, name):
        """Have it be told what it cannot be asked for."""
        if name == "prepare" and self.how == "has none to ask for":
            raise SystemExit(2)
        return super().__getattribute__(name)

    def open_session(self, request, host):
        raise NotImplementedError

    async def probe(self):
        if self.how == "refuses":
            raise ProviderNotAvailableError("it is too old")
        return ProviderStatus(available=self.how != "absent", logged_in=self.how != "logged out")

    async def prepare(self):
        self.begun = True
        if self.how == "exits":
            sys.exit(1)
        if self.how == "fails":
            raise ProviderNotAvailableError("there is no room")
        if self.how == "starts":
            await self.services.start_process(["sleep", "1000"], name="first")
        try:
            if self.how in {"hangs", "starts"}:
                await asyncio.Event().wait()
        finally:
            self.ended = True


@pytest.fixture
def opened(tmp_path):
    """Opens what an owner holds, with two providers, under these settings."""
    paths = resolve_paths(tmp_path, {"PRSM_HOME": str(tmp_path / "home")})
    specs = {
        name: ProviderSpec(name=name, summary="", factory=Prepared) for name in ("first", "second")
    }

    def opened(session="session", **settings):
        return open_owned(paths, Settings.of(settings), specs, session=session, clock=SystemClock())

    return opened


async def prepared(owned):
    """Return the names of the providers that have begun, once one would have."""
    registry = owned.registry
    if registry._preparing is not None:
        await asyncio.wait({registry._preparing})
    return {name for name, _ in registry._built if (await registry.get(name)).inner.begun}


@pytest.mark.parametrize(
    ("provider", "model", "defaults", "expected"),
    [
        (None, None, {}, "first"),
        ("second", None, {}, "second"),
        (None, None, {"provider": "second"}, "second"),
        (None, "second/large", {}, "second"),
        ("second", "first/large", {}, "first"),
        ("second", "large", {}, "second"),
        (None, "large", {}, None),
        (None, "large", {"provider": "second"}, None),
        ("nobody", None, {}, None),
    ],
)
async def test_the_provider_that_a_run_is_likely_to_choose_begins(
    opened, provider, model, defaults, expected
):
    async with opened(defaults=defaults) as owned:
        await owned.prepare(provider, model)
        assert await prepared(owned) == ({expected} if expected else set())


@pytest.mark.parametrize("how", ["absent", "refuses", "cannot lead"])
@pytest.mark.parametrize("named", ["first", None])
async def test_none_begins_that_a_run_would_not_take(opened, how, named):
    async with opened(providers={"first": {"how": how}}) as owned:
        await owned.prepare(named, None)
        assert await prepared(owned) == set()


async def test_none_begins_that_enforces_less_than_is_required(opened):
    async with opened(permissions={"require": "pre_tool"}) as owned:
        await owned.prepare("first", None)
        assert await prepared(owned) == set()


@pytest.mark.parametrize(
    ("how", "expected"),
    [("fails", {"first"}), ("exits", {"first"}), ("has none to ask for", set())],
)
async def test_what_it_raises_is_left_to_whoever_opens_a_session(opened, how, expected):
    async with opened(providers={"first": {"how": how}}) as owned:
        await owned.prepare(None, None)
        assert await prepared(owned) == expected


async def test_its_program_starts_before_anything_else_is_done(opened):
    async with opened(providers={"first": {"how": "starts"}}) as owned:
        await owned.prepare(None, None)
        assert [process.name for process in owned.launcher.live] == ["first"]
        assert not owned.registry._preparing.done()


async def test_one_that_starts_no_program_is_not_waited_for(opened):
    async with opened(providers={"first": {"how": "hangs"}}) as owned:
        await owned.prepare(None, None)
        assert not owned.launcher.live
        assert not owned.registry._preparing.done()


async def test_one_that_hangs_is_cancelled_before_its_provider_is_closed(opened):
    async with opened(providers={"first": {"how": "hangs"}}) as owned:
        await owned.prepare(None, None)
        provider = (await owned.registry.get("first")).inner
        await until(lambda: provider.begun)
        await owned.registry.aclose()
        assert provider.ended


async def test_what_fails_in_its_tasks_is_told_to_the_engine_once_there_is_one(opened, caplog):
    async def fail():
        raise RuntimeError("by surprise")

    told = []
    async with opened() as owned:
        services = (await owned.registry.get("first")).inner.services
        services.start_soon(fail, name="early")
        await until(lambda: "early failed" in caplog.text)
        owned.registry.background.on_error = lambda name, error: told.append(name)
        services.start_soon(fail, name="late")
        await until(lambda: told)
    assert told == ["late"]
    assert "late failed" not in caplog.text


async def test_nothing_begins_for_who_does_not_own_the_session(opened):
    async with opened():
        with pytest.raises(SessionOwnedError):
            await opened().__aenter__()
