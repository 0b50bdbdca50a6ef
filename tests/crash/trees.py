"""A tree of depth three that asks, spawns, waits and reports; and what must be left of it."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

WORKER = Path(__file__).with_name("worker.py")
SECONDS = 120
SCENARIO = """
lanes:
  master:
    steps:
      - call:
          - {id: a, tool: spawn_child, arguments: {name: a, prompt: part one, wait: true}}
          - {id: b, tool: spawn_child, arguments: {name: b, prompt: part two}}
      - call:
          tool: respond_to_child
          arguments:
            child_id: "${a.agent_id}"
            correlation_id: "${a.result.correlation_id}"
            response: blue
      - call: {id: m, tool: wait_for_message, arguments: {all: true}}
      - call:
          tool: task_complete
          arguments: {summary: "all: ${m.summary} ${m.others.0.summary}"}
  a:
    steps:
      - call: {id: q, tool: ask_parent, arguments: {question: "which colour?"}}
      - call: {id: k, tool: spawn_child, arguments: {name: a1, prompt: look, wait: true}}
      - call: {tool: task_complete, arguments: {summary: "a ${q.answer} ${k.result.summary}"}}
  a1:
    steps:
      - call: {tool: report_progress, arguments: {status: half, percent: 50}}
      - call: {tool: task_complete, arguments: {summary: a1 done}}
  b:
    steps:
      - call:
          tool: spawn_children_parallel
          arguments:
            children: [{name: b1, prompt: one}, {name: b2, prompt: two}]
      - call: {id: w, tool: wait_for_message, arguments: {all: true}}
      - call: {tool: task_complete, arguments: {summary: b ok}}
  b1:
    steps:
      - call: {tool: task_complete, arguments: {summary: b1 done}}
  b2:
    steps:
      - call: {tool: task_complete, arguments: {summary: b2 done}}
"""
AGENTS = {"master", "a", "a1", "b", "b1", "b2"}
WORDS = sorted(["all:", "a", "blue", "a1", "done", "b", "ok"])


@dataclass(frozen=True)
class Ended:
    """How a process ended: killed by itself, or with an exit code."""

    code: int
    out: str
    err: str

    @property
    def was_killed(self) -> bool:
        return self.code in {-signal.SIGKILL, -signal.SIGALRM, -signal.SIGXFSZ}


class Home:
    """A workspace and a home of PRSM, in which a session is run, killed, and gone on with."""

    def __init__(
        self,
        folder: Path,
        scenario: str = SCENARIO,
        *,
        workspace: Path | None = None,
        worker: Path = WORKER,
    ) -> None:
        self.folder = folder
        self._worker = worker
        self.workspace = workspace or folder / "workspace"
        folder.mkdir(parents=True, exist_ok=True)
        self.workspace.mkdir(exist_ok=True)
        self._mark = folder / "done.json"
        self._scenario = folder / "scenario.yaml"
        self.play(scenario)
        self.env = {
            **os.environ,
            "PRSM_HOME": str(folder / "home"),
            "HOME": str(folder),
            "PRSM_PLUGINS": "",
        }

    def play(self, scenario: str) -> None:
        """Have what is run from here on do this."""
        self._scenario.write_text(scenario)

    def run(self, fault: str = "none") -> Ended:
        """Run the tree, to which this happens; see `worker.py`."""
        return self.prsm("run", "build it", "--provider", "script", fault=fault)

    def resume(self, fault: str = "none") -> Ended:
        """Go on with it."""
        return self.prsm("resume", fault=fault)

    def prsm(self, *words: str, fault: str = "none") -> Ended:
        scenario = ("--set", f"providers.script.scenario={self._scenario}")
        given = scenario if words[0] in {"run", "resume"} else ()
        done = subprocess.run(
            [sys.executable, str(self._worker), fault, str(self._mark), *words, *given],
            cwd=self.workspace,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    @property
    def seconds(self) -> float:
        """How long the last process has worked, from its first commit to its last."""
        return float(json.loads(self._mark.read_text())["seconds"])

    @property
    def commits(self) -> int:
        """How many commits the last process has made."""
        return int(json.loads(self._mark.read_text())["commits"])

    @property
    def has_ledger(self) -> bool:
        """Whether there is a ledger, and not only an empty file that SQLite is yet to begin."""
        return any(path.stat().st_size for path in (self.folder / "home").rglob("ledger.db"))

    @property
    def ledger(self) -> Path:
        """The ledger of the workspace."""
        [path] = (self.folder / "home").rglob("ledger.db")
        return path

    def query(self, sql: str) -> list[tuple[object, ...]]:
        """Look into the ledger."""
        with sqlite3.connect(self.ledger) as ledger:
            return ledger.execute(sql).fetchall()


class AnyMoment:
    """Kills at moments around one that counts, wherever it lies, however busy the machine is.

    After one that came too late the next ones come sooner, and after one that did not, later: so
    that there are some of both.
    """

    def __init__(self) -> None:
        self._dice = random.Random(0)
        self._within = 0.1  # seconds

    def next(self) -> str:
        """Return the next fault."""
        return f"alarm:{self._dice.uniform(1e-6, self._within):f}"

    def was(self, *, early: bool) -> None:
        """Take note of whether the last one came before what counts."""
        self._within *= 1.4 if early else 0.7


def killed_and_resumed(home: Home, *kills: int, run: Callable[[str], Ended] | None = None) -> Ended:
    """Kill a run after the first number of commits, its resumes after the others; then finish.

    `run` begins it with a fault, `Home.run` if it is None.
    """
    first, *later = kills
    ended = (run or home.run)(f"kill:{first}")
    for kill in later:
        if ended.was_killed:
            ended = home.resume(f"kill:{kill}")
    return home.resume() if ended.was_killed else ended


def check_whole(home: Home, ended: Ended) -> None:
    """Same agents, each question, child, result and answer once; no turn or call left open."""
    assert ended.code == 0, ended.err
    assert sorted(ended.out.split()) == WORDS
    agents = home.query("SELECT name, state FROM agents")
    assert {name for name, _ in agents} == AGENTS
    assert len(agents) == len(AGENTS)
    assert {state for _, state in agents} == {"completed"}
    kinds = home.query("SELECT type, count(*) FROM inbox GROUP BY type ORDER BY type")
    assert kinds == [("answer", 1), ("question", 1), ("task_result", 5)]
    assert home.query("SELECT count(*) FROM turns WHERE closed_by IS NULL") == [(0,)]
    assert home.query("SELECT count(*) FROM tool_calls WHERE completed_at IS NULL") == [(0,)]
    assert home.query("SELECT status FROM runs") == [("completed",)]
    results = home.query(
        "SELECT agent_id, count(*) FROM events WHERE type = 'agent_state_changed'"
        " AND json_extract(data, '$.to') = 'completed' GROUP BY agent_id"
    )
    assert [count for _, count in results] == [1] * len(AGENTS)


def check_sound(home: Home) -> None:
    """Nothing is torn or half written: what rows refer to is there, and no number lacks."""
    assert home.query("PRAGMA integrity_check") == [("ok",)]
    assert home.query("PRAGMA foreign_key_check") == []
    assert home.query("SELECT min(position), max(position) FROM steps WHERE position > 0") in (
        [(None, None)],
        home.query("SELECT 1, count(*) FROM steps WHERE position > 0"),
    )
    told = home.query(
        "SELECT session_id, min(first_seq), max(first_seq + event_count) - 1, total(event_count)"
        " FROM steps WHERE event_count > 0 GROUP BY session_id"
    )
    numbered = "SELECT session_id, min(seq), max(seq), count(*) FROM events GROUP BY session_id"
    assert told == home.query(numbered)
    shares = home.query("SELECT session_id, max(seq) FROM forks GROUP BY session_id")
    begins: dict[object, Any] = {row[0]: row[1] for row in shares}
    for session, first, last, count in told:
        before = begins.get(session, 0)  # which it shares with its origin
        assert (first, last) == (before + 1, before + count)
