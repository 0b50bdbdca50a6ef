"""A deadline ends its body by the engine's clock, and leaves no timer behind."""

from __future__ import annotations

import asyncio

import pytest

from prsm_core.interfaces.deadline import deadline
from prsm_core.testing.doubles import open_services


async def test_what_takes_too_long_is_ended(tmp_path):
    async with open_services(tmp_path) as services:
        with pytest.raises(TimeoutError):
            async with deadline(services, 0.01):
                await asyncio.Event().wait()


async def test_what_ends_in_time_is_left_alone(tmp_path):
    async with open_services(tmp_path) as services:
        before = len(asyncio.all_tasks())
        async with deadline(services, 3600):
            pass
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == before
