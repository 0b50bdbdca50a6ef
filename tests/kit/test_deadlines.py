"""A deadline leaves nothing behind; that it ends its body is shown for every clock."""

from __future__ import annotations

import asyncio

import pytest
from prsm_testing.doubles import open_services

from prsm_core.kit.clocks import deadline


async def test_what_ends_in_time_is_left_alone(tmp_path):
    async with open_services(tmp_path) as services:
        before = len(asyncio.all_tasks())
        async with deadline(services, 3600):
            pass
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == before


async def test_an_error_of_the_body_comes_through_as_it_is(tmp_path):
    async with open_services(tmp_path) as services:
        with pytest.raises(LookupError):
            async with deadline(services, 3600):
                raise LookupError
