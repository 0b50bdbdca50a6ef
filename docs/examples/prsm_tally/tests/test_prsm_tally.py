"""The sink keeps the contract, and counts."""

import json

import pytest
from prsm_tally import Tally
from prsm_testing import EventSinkContract

from prsm_core import RunInfo


class TestTally(EventSinkContract):
    @pytest.fixture(autouse=True)
    def tally(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PRSM_TALLY", str(tmp_path / "tally.json"))
        return tmp_path / "tally.json"

    def open_sink(self, run, tmp_path):
        return Tally(run, {})

    def open_failing_sink(self, run, tmp_path):
        (tmp_path / "tally.json").mkdir()
        return Tally(run, {})

    async def test_events_are_counted_by_type(self, tally, prsm_events):
        sink = Tally(RunInfo(run_id="r", session="s", task="t", workspace="/w"), {})
        await sink.write(prsm_events)
        await sink.write(prsm_events[:1])
        await sink.aclose()
        counts = json.loads(tally.read_text())
        assert (counts["run"], counts["events"]["run_started"]) == ("r", 2)
        assert counts["events"]["run_finished"] == 1
