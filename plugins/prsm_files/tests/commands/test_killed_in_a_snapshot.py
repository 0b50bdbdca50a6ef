"""`prsm run` killed in the midst of its snapshot: tree, shadow and ledger agree afterwards."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess

import pytest

from prsm_core.config import ledger_path, resolve_paths
from prsm_core.store import SqliteStore
from prsm_core.workspace.identity import repo_identity
from tests.cli.conftest import DEADLINE, command

pytestmark = [
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]

LANES = {
    "master": [
        {"call": {"tool": "spawn_child", "arguments": {"prompt": "[[lane:w1]] change it"}}},
        {"call": {"tool": "wait_for_message", "arguments": {}}},
        {"call": {"tool": "task_complete", "arguments": {"summary": "done"}}},
    ],
    "w1": [
        {"edit": {"path": "a", "content": "new"}},
        {"edit": {"path": "b", "content": "more"}},
        {"call": {"tool": "task_complete", "arguments": {"summary": "changed"}}},
    ],
}
# A git that ends the engine at its first command with some words, before it or after; its answer
# then never comes. Others are not counted: what looks for changes of agents may come before it.
GIT = """#!/bin/sh
end() {{ kill -9 "$(cat {folder}/engine)"; exec sleep 60; }}
while [ ! -s {folder}/engine ]; do sleep 0.01; done
echo " $* " >> {folder}/commands
words=$(cat {folder}/words)
case " $* " in
*" $words"*) number=$(grep -c -- " $words" {folder}/commands) ;;
*) number=none ;;
esac
[ "$number" = 1 ] && [ "$(cat {folder}/when)" = before ] && end
{git} "$@"
code=$?
[ "$number" = 1 ] && [ "$(cat {folder}/when)" = after ] && end
exit $code
"""


class Place:
    """A workspace with a file, and a git that kills."""

    def __init__(self, workspace, folder, monkeypatch):
        self.workspace = workspace
        self._folder = folder
        folder.mkdir()
        (workspace / "a").write_text("old")
        self.scenario = folder / "scenario.yaml"
        lanes = {name: {"steps": steps} for name, steps in LANES.items()}
        self.scenario.write_text(json.dumps({"lanes": lanes}))
        git = folder / "bin" / "git"
        git.parent.mkdir()
        git.write_text(GIT.format(folder=folder, git=shutil.which("git")))
        git.chmod(0o755)
        monkeypatch.setenv("PATH", f"{git.parent}{os.pathsep}{os.environ['PATH']}")

    def run(self, *args, when="never", words=""):
        """Run a command; git kills it before or after its first call with `words`, or never."""
        (self._folder / "commands").write_text("")
        (self._folder / "words").write_text(words)
        (self._folder / "when").write_text(when)
        (self._folder / "engine").write_text("")
        with subprocess.Popen(
            command(*args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            (self._folder / "engine").write_text(str(process.pid))
            out, err = process.communicate(timeout=DEADLINE)
        return process.returncode, out, err

    def run_task(self, **killed):
        given = ("--provider", "script", "--set", f"providers.script.scenario={self.scenario}")
        return self.run("run", "change it", "--json", "--mode", "accept_edits", *given, **killed)


@pytest.fixture
def place(workspace, tmp_path, monkeypatch):
    return Place(workspace, tmp_path / "scene", monkeypatch)


async def ledger_of(place, session):
    paths = resolve_paths(place.workspace, os.environ)
    path = ledger_path(paths, repo_identity(place.workspace).key)
    async with await SqliteStore.open(path, read_only=True) as store:
        return await store.state(session)


@pytest.mark.parametrize(
    ("when", "words", "is_kept"),
    [
        ("before", "mktree --missing", False),
        ("after", "commit-tree", False),
        ("before", "update-ref refs/prsm/", False),
        ("after", "update-ref refs/prsm/", True),
    ],
)
async def test_an_engine_killed_in_its_snapshot_leaves_what_a_resume_makes_whole(
    place, when, words, is_kept
):
    code, out, _ = place.run_task(when=when, words=words)
    assert code == -signal.SIGKILL
    assert (place.workspace / "a").read_text() == "old"  # nobody has written yet
    session = json.loads(out.splitlines()[0])["session"]
    assert (await ledger_of(place, session)).snapshots == ()
    _, listed, _ = place.run("snapshot", "list", "--json")
    assert len(json.loads(listed)) == is_kept

    code, _, err = place.run("resume", session, "--json")
    assert code == 0, err
    assert (place.workspace / "b").read_text() == "more"
    named = (await ledger_of(place, session)).snapshots
    _, listed, _ = place.run("snapshot", "list", "--json")
    kept = {one["id"] for one in json.loads(listed)}
    assert {one.snapshot_id for one in named} == kept
    assert len(kept) == 1  # the resume finds all as it was kept, or keeps it now

    code, _, err = place.run("snapshot", "restore", named[0].snapshot_id, "--yes")
    assert code == 0, err
    assert [file.name for file in place.workspace.iterdir()] == ["a"]
    assert (place.workspace / "a").read_text() == "old"


def test_a_deleted_session_takes_its_snapshots_along_and_leaves_a_persons(place):
    code, out, err = place.run_task()
    assert code == 0, err
    session = json.loads(out.splitlines()[0])["session"]
    _, out, _ = place.run("snapshot", "create", "--json")
    mine = json.loads(out)["id"]
    _, listed, _ = place.run("snapshot", "list", "--json")
    assert {one["kind"] for one in json.loads(listed)} == {"manual", "run"}
    code, _, err = place.run("sessions", "delete", session, "--yes")
    assert code == 0, err
    _, listed, _ = place.run("snapshot", "list", "--json")
    assert [one["id"] for one in json.loads(listed)] == [mine]
