"""Sessions of real runs: teams of the scripted provider on the real command line."""

import json
import sqlite3
from contextlib import closing

ASKS = {
    "lanes": {
        "master": {
            "steps": [
                {
                    "call": {
                        "tool": "spawn_child",
                        "arguments": {"prompt": "count", "name": "w1", "wait": False},
                    }
                },
                {"call": {"tool": "wait_for_message", "arguments": {}}},
                {"call": {"tool": "task_complete", "arguments": {"summary": "all is counted"}}},
            ]
        },
        "w1": {
            "steps": [
                {"say": "I count."},
                {
                    "call": {
                        "tool": "run_bash",
                        "arguments": {"command": "echo 3 > counted.txt; cat counted.txt"},
                    }
                },
                {"call": {"tool": "task_complete", "arguments": {"summary": "three"}}},
            ]
        },
    }
}


def play(prsm_process, folder, scenario=None, task="count the files", **options):
    """Run a task whose agents follow a scenario; return the session, and how the command ended."""
    path = folder / "scenario.json"
    path.write_text(json.dumps(scenario or ASKS))
    given = [word for name, value in options.items() for word in (f"--{name}", value)]
    done = prsm_process(
        *("run", task, "--json", "--provider", "script", "--on-ask", "allow"),
        *("--set", f"providers.script.scenario={path}", *given),
    )
    events = [json.loads(line) for line in done.out.splitlines()]
    assert events, done.err
    return events[0]["session"], events


def problems(path):
    """Return what SQLite says is wrong with a ledger."""
    with closing(sqlite3.connect(path)) as conn:
        checked = conn.execute("PRAGMA integrity_check").fetchall()
        return [*checked, *conn.execute("PRAGMA foreign_key_check")]
