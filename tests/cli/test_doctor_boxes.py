"""prsm doctor tells of boxes that dead engines left, and leaves them alone."""

import json
import os
import subprocess

import pytest

from prsm_core.engine.processes.table import process_identity


@pytest.mark.requirement("U18")
def test_boxes_of_a_dead_engine_are_told_and_left_alone(prsm, tmp_path):
    with subprocess.Popen(["true"], stdin=subprocess.DEVNULL) as process:
        dead = process_identity(process.pid)
    own = process_identity(os.getpid())
    boxes = tmp_path / "home" / "state" / "boxes"
    for engine, box in ((dead, "prsm-1-aaa-1"), (own, "prsm-2-bbb-1")):
        assert engine is not None
        words = (str(engine.pid), str(engine.start_time), engine.boot_id, "abc")
        (boxes / "_".join(words) / box).mkdir(parents=True)
    before = sorted(boxes.rglob("*"))
    told = [one for one in json.loads(prsm("doctor", "--json").out) if one["check"] == "boxes"]
    assert sorted(boxes.rglob("*")) == before
    assert told[0]["status"] == "warning"
    assert told[0]["message"] == "dead engines left a box: prsm-1-aaa-1"
    assert told[0]["cure"] == "the next `prsm run` removes them"
    assert not any("prsm-2" in one["message"] for one in told)
