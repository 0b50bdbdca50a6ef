"""The JSONL sink writes where it was told to, else nowhere."""

import json
import stat

import pytest

from prsm_core.builtin.jsonl_sink import JsonlSink
from prsm_core.domain.events import Event
from prsm_core.interfaces.sink import RunInfo


def info(run_id="R"):
    return RunInfo(run_id=run_id, session="S", task="t", workspace="/w")


def batch(*numbers):
    return [
        Event(type="notice", session="S", run="R", ts=0.0, seq=n, data={"text": str(n)})
        for n in numbers
    ]


def seqs(path):
    return [json.loads(line)["seq"] for line in path.read_text().splitlines()]


async def test_batches_are_appended_to_the_file(tmp_path):
    path = tmp_path / "deep" / "log.jsonl"
    sink = JsonlSink(info(), {"path": str(path)})
    await sink.write(batch(1, 2))
    await sink.write([])
    await sink.write(batch(3))
    await sink.aclose()
    await JsonlSink(info("other"), {"path": str(path)}).write(batch(4))
    assert seqs(path) == [1, 2, 3, 4]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_folder_gets_one_file_a_run(tmp_path):
    await JsonlSink(info("R1"), {"path": str(tmp_path)}).write(batch(1))
    await JsonlSink(info("R2"), {"path": f"{tmp_path}/new/"}).write(batch(2))
    assert seqs(tmp_path / "R1.jsonl") == [1]
    assert seqs(tmp_path / "new" / "R2.jsonl") == [2]


@pytest.mark.parametrize("settings", [{}, {"path": ""}, {"path": None}])
async def test_without_a_path_nothing_is_written(tmp_path, monkeypatch, settings):
    monkeypatch.chdir(tmp_path)
    sink = JsonlSink(info(), settings)
    await sink.write(batch(1))
    await sink.aclose()
    assert list(tmp_path.iterdir()) == []


async def test_a_path_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        await JsonlSink(info(), {"path": str(tmp_path / "file" / "log")}).write(batch(1))
