"""The built-ins pass what every plugin must pass."""

import json

import pytest
from prsm_testing.frontend_contract import FrontendContract
from prsm_testing.sink_contract import EventSinkContract

from prsm_core.builtin.json_frontend import JsonFrontend
from prsm_core.builtin.jsonl_sink import JsonlSink

pytestmark = pytest.mark.requirement("F12")


class TestJsonFrontend(FrontendContract):
    def build(self, settings):
        return JsonFrontend(settings)


class TestJsonlSink(EventSinkContract):
    def open_sink(self, run, tmp_path):
        return JsonlSink(run, {"path": f"{tmp_path}/"})

    def kept(self, run, tmp_path):
        lines = (tmp_path / f"{run.run_id}.jsonl").read_text().splitlines()
        return [json.loads(line)["seq"] for line in lines]

    def open_failing_sink(self, run, tmp_path):
        (tmp_path / "file").write_text("")
        return JsonlSink(run, {"path": str(tmp_path / "file" / "log")})


class TestJsonlSinkWithoutAPath(EventSinkContract):
    def open_sink(self, run, tmp_path):
        return JsonlSink(run, {})
