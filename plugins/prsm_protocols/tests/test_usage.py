"""What Claude Code's session logs say: each response once, as it has grown."""

from __future__ import annotations

import json

import pytest
from prsm_protocols.program.program import LOGS, SessionLogs

from prsm_core import Provenance, TokenUsage


def line(response: str, fresh: int, cached: int, written: int, output: int) -> str:
    usage = {
        "input_tokens": fresh,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
        "output_tokens": output,
        "service_tier": "standard",
    }
    message = {"id": response, "role": "assistant", "model": "m", "content": [], "usage": usage}
    return json.dumps({"type": "assistant", "uuid": "u", "message": message}) + "\n"


@pytest.mark.requirement("A16")
async def test_each_response_counts_once_as_it_has_grown(tmp_path):
    logs, folder = SessionLogs(tmp_path), tmp_path / LOGS / "-work"
    assert await logs.grown() is None
    folder.mkdir(parents=True)
    log = folder / "s1.jsonl"
    log.write_text(line("m0", 1, 1, 1, 1))
    await logs.skip()
    assert await logs.grown() is None
    with log.open("a") as file:
        file.write(json.dumps({"type": "user", "message": {"role": "user", "content": "x"}}) + "\n")
        file.write(line("m1", 10, 100, 5, 1) + line("m1", 10, 100, 5, 20) + line("m2", 3, 0, 0, 4))
        file.write("no json\n" + line("m3", 7, 7, 7, 7)[:30])
    told = await logs.grown()
    assert told is not None
    assert told.provenance is Provenance.REPORTED
    assert told.cost_usd is None
    assert told.usage == TokenUsage(
        input_tokens=118,
        cached_input_tokens=100,
        cache_write_tokens=5,
        output_tokens=24,
        total_tokens=142,
    )
    with log.open("a") as file:
        file.write(line("m3", 7, 7, 7, 7)[30:])
    (folder / "s2.jsonl").write_text(line("m3", 7, 7, 7, 7) + line("m4", 1, 0, 0, 1))
    told = await logs.grown()
    assert told is not None
    assert told.usage.total_tokens == 28 + 2


async def test_a_log_that_leads_out_of_the_home_is_not_read(tmp_path):
    outside = tmp_path / "secret.jsonl"
    outside.write_text(line("m1", 1, 1, 1, 1))
    folder = tmp_path / "home" / LOGS / "-work"
    folder.mkdir(parents=True)
    (folder / "s.jsonl").symlink_to(outside)
    assert await SessionLogs(tmp_path / "home").grown() is None
