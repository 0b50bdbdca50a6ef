"""A check that is a plain function holds as one that is awaited does."""

from __future__ import annotations

import asyncio

import pytest

from prsm_core.domain.permissions import Allow, Ask, Deny
from prsm_core.interfaces.permission import PermissionCheckSpec
from tests.permissions.brokers import broker, make_context, uses


def at_once(verdict, name="check", **fields):
    def answer(_request, _context):
        if isinstance(verdict, BaseException):
            raise verdict
        return verdict() if callable(verdict) else verdict

    return PermissionCheckSpec(name=name, summary="", priority=1, check=answer, **fields)


async def decided(tmp_path, *checks, trusted=()):
    one = broker(checks=checks, trusted_checks=trusted)
    return await one.decide(uses("Read", "x"), make_context(tmp_path))


@pytest.mark.requirement("E24")
@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        (Deny("no"), "no"),
        (ValueError("broken"), "the permission check check failed: ValueError: broken"),
        (SystemExit(3), "the permission check check failed: SystemExit"),
        (asyncio.CancelledError(), "it cancelled itself"),
        ("deny", "the permission check check gave a str, which is no Allow or Deny or Ask"),
    ],
    ids=str,
)
async def test_what_it_refuses_and_what_goes_wrong_with_it_is_a_denial(tmp_path, verdict, told):
    found = await decided(tmp_path, at_once(verdict))
    assert isinstance(found, Deny)
    assert told in found.reason
    assert found.check == "check"


async def test_it_may_have_no_opinion_and_a_denial_of_another_wins(tmp_path):
    assert isinstance(await decided(tmp_path, at_once(None)), Allow)
    assert isinstance(await decided(tmp_path, at_once(Ask("hm"))), Ask)
    for checks in ([at_once(Deny("no")), at_once(Allow(), "yes")], [at_once(Allow(), "a"),
                   at_once(Deny("no"), "b")]):  # fmt: skip
        assert (await decided(tmp_path, *checks, trusted=["yes", "a"])).reason == "no"


async def test_one_that_answers_after_its_time_is_a_denial(tmp_path, monkeypatch):
    loop = asyncio.get_running_loop()
    seconds = loop.time()

    def slow():
        nonlocal seconds
        seconds += 6

    monkeypatch.setattr(loop, "time", lambda: seconds)
    verdict = await decided(tmp_path, at_once(slow))
    monkeypatch.undo()
    assert verdict == Deny("the permission check check gave no verdict within 5 s", check="check")


async def test_it_may_give_what_has_to_be_awaited(tmp_path):
    async def soon():
        await asyncio.sleep(0)
        return Deny("soon")

    assert await decided(tmp_path, at_once(soon)) == Deny("soon", check="check")
