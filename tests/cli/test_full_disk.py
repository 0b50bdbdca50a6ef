"""A disk that takes no more: what is imported is there whole, or not at all."""

from __future__ import annotations

import json

import pytest

from prsm_core.config import ledger_path, resolve_paths
from prsm_core.workspace.identity import repo_identity
from tests.cli.sessions_scene import problems
from tests.place import Place

BLOCK = 1024  # bytes, of `ulimit -f`
# Python 3.11 does not notice that it wrote a part of a compiled module, and fails on reading it.
LIMITED = ("env", "PYTHONDONTWRITEBYTECODE=1", "bash", "-c", 'ulimit -f "$0"; exec "$@"')


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path)
    place.script(master=[{"say": "hello"}])
    return place


async def test_an_import_that_the_disk_refuses_leaves_nothing_of_it(place, tmp_path):
    given = ("--provider", "script", "--set", f"providers.script.scenario={place.scenario}")
    assert (await place.run("run", "say it", *given))[0] == 0
    file = tmp_path / "kept.json"
    assert (await place.run("export", "-o", str(file)))[0] == 0
    _, before, _ = await place.run("sessions", "list", "--json")
    env = {name: str(place.env[name]) for name in ("PRSM_HOME",)}
    ledger = ledger_path(resolve_paths(place.workspace, env), repo_identity(place.workspace).key)
    full = -(-ledger.stat().st_size // BLOCK)
    refused = 0
    out, after = "", before
    for blocks in (1, 8, *range(32, full + 64, 32)):
        process = await place.start(
            "sessions", "import", str(file), "--json", through=(*LIMITED, str(blocks))
        )
        out, err = (text.decode() for text in await process.communicate())
        assert problems(ledger) == [("ok",)]
        _, after, _ = await place.run("sessions", "list", "--json")
        if process.returncode == 0:
            break
        refused += 1
        assert (process.returncode, out, after) == (1, "", before), err
        assert "hint: check the disk: space, permissions, health" in err
    assert refused > 1
    new = json.loads(out)["session"]
    assert new in after
    assert len(json.loads((await place.run("export", new))[1])["events"]) == len(
        json.loads(file.read_text())["events"]
    )


async def test_snapshots_outlast_a_disk_that_takes_no_more(place):
    (place.workspace / "kept.txt").write_text("first")
    assert (await place.run("snapshot", "create"))[0] == 0
    _, before, _ = await place.run("snapshot", "list")
    (place.workspace / "kept.txt").write_text("second" * BLOCK)
    process = await place.start("snapshot", "create", through=(*LIMITED, "0"))
    _, err = await process.communicate()
    assert process.returncode == 1, err
    assert b"set aside" not in err
    assert (await place.run("snapshot", "list"))[1] == before
    assert (await place.run("snapshot", "create"))[0] == 0
    assert before.splitlines()[1] in (await place.run("snapshot", "list"))[1]
