"""Claims of files are judged by what was in them before, whenever the engine dies in between.

No commit has any of the files, and a clock tells nothing: all are written after the agent began.
"""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from tests.crash.trees import Home, killed_and_resumed

pytestmark = [
    pytest.mark.requirement("U13"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]

SCENARIO = r"""
lanes:
  master:
    steps:
      - call: {tool: spawn_child, arguments: {name: w, prompt: write, wait: true}}
      - call: {tool: task_complete, arguments: {summary: done}}
  w:
    steps:
      - edit: {path: same, content: "there already\n"}
      - edit: {path: new, content: "made\n"}
      - shell: "echo tried > dirty"
      - shell: "echo edited by a person > dirty"
      - call:
          tool: task_complete
          arguments: {summary: w done, artifacts: [new, same, dirty]}
"""
SAME = "is as it was before the agent began"
UNTOUCHED = "was not changed since the agent began"
UNCHECKED = "nothing has checked what it changed last"
RUN = ("run", "work", "--provider", "script", "--mode", "bypass", "--on-ask", "allow")
FEW = [(6, True), (9, False), (12, True), (14, False)]  # commits, in a repository or not
ALL = range(3, 27)
EVIDENCE = (
    "SELECT data FROM events WHERE type = 'agent_state_changed' AND json_extract(data, '$.to')"
    " = 'completed' AND agent_id IN (SELECT agent_id FROM agents WHERE name = 'w')"
)


class Claims(Home):
    """A home whose workspace has files of a person's, which no commit has."""

    def __init__(self, folder, *, is_repository=True):
        super().__init__(folder, SCENARIO)
        if is_repository:
            subprocess.run(["git", "init", "-q"], cwd=self.workspace, check=True)
        (self.workspace / "same").write_text("there already\n")
        (self.workspace / "dirty").write_text("edited by a person\n")

    def work(self, fault="none"):
        return self.prsm(*RUN, fault=fault)

    def gaps(self):
        """Return by file what was told to be wrong with a claim of it; no check was run."""
        [(data,)] = self.query(EVIDENCE)
        told = json.loads(str(data))
        assert told["evidence"] == "claimed"
        *of_files, last = told["evidence_gaps"]
        assert last == UNCHECKED
        return {gap.split("'")[1]: gap.split("' ")[1] for gap in of_files}


def check_claims(home, ended):
    assert ended.code == 0, ended.err
    gaps = home.gaps()
    assert gaps.pop("same") in {SAME, UNTOUCHED}
    if (home.workspace / "dirty").read_text() == "edited by a person\n":
        assert gaps.pop("dirty") in {SAME, UNTOUCHED}
    if not (home.workspace / "new").exists():  # its call was cut off
        assert gaps.pop("new") == "does not exist"
    assert gaps == {}


@pytest.mark.parametrize(("kill", "is_repository"), FEW)
def test_claims_are_judged_after_a_kill_as_if_there_had_been_none(tmp_path, kill, is_repository):
    home = Claims(tmp_path, is_repository=is_repository)
    check_claims(home, killed_and_resumed(home, kill, run=home.work))


@pytest.mark.long
@pytest.mark.parametrize("kill", ALL)
def test_claims_are_judged_after_a_kill_at_any_commit_and_another(tmp_path, kill):
    home = Claims(tmp_path)
    check_claims(home, killed_and_resumed(home, kill, 1 + kill % 6, run=home.work))


def test_no_commit_of_such_a_run_is_beyond_those_that_are_tried(tmp_path):
    home = Claims(tmp_path)
    ended = home.work()
    check_claims(home, ended)
    assert home.gaps() == {"same": SAME, "dirty": SAME}
    assert 14 < home.commits < max(ALL)
