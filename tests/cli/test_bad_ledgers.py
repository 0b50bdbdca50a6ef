"""Every command that reads a ledger, on every kind of ledger that is none, or none any more.

Each says in a line what is wrong, and the cure; none shows a traceback, none changes the file.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from contextlib import closing

import pytest

from prsm_core.cli.group import COMMANDS
from tests.cli.conftest import _record
from tests.store.test_migrations import EARLIER

READ: dict[str, list[tuple[str, ...]]] = {
    "resume": [("resume",), ("resume", "s1", "--json")],
    "tree": [("tree",), ("tree", "s1", "--json")],
    "events": [("events",), ("events", "s1", "--json", "--after", "2")],
    "history": [("history", "master"), ("history", "w1", "--json")],
    "sessions": [
        ("sessions", "list"),
        ("sessions", "list", "--json"),
        ("sessions", "show", "s1"),
        ("sessions", "rename", "s1", "another name"),
        ("sessions", "delete", "s1", "--yes"),
        ("sessions", "export", "s1", "--output", "out.json"),
        ("sessions", "fork", "s1"),
    ],
    "replay": [("replay", "s1")],
    "diff": [("diff", "s1", "s2"), ("diff", "s1", "s2", "--json")],
    "fork": [("fork", "s1"), ("fork", "s1", "--at", "3")],
    "snapshot": [("snapshot", "show", "01AB")],  # they lie in a store of their own
    "changes": [
        ("changes",),
        ("changes", "list", "--json"),
        ("changes", "diff"),
        ("changes", "why", "a"),
    ],
    "accept": [("accept", "--all")],
    "reject": [("reject", "--all", "--yes")],
    "undo": [("undo", "--prompt", "--yes")],
    "export": [("export", "s1", "--output", "out.html")],
    "prompt": [("prompt", "w1", "be quick")],
    "kill": [("kill", "w1")],
    "model": [("model", "w1", "another")],
    "answer": [("answer",), ("answer", "01AB", "deny")],
    "attach": [("attach",), ("attach", "s1")],
}
READS_NONE = {
    *("run", "demo", "mcp", "install", "plugins", "providers", "models", "sim"),
    *("doctor", "policy", "config", "trust", "uninstall"),
}


def of_another_program(path):
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("CREATE TABLE bookmarks (url TEXT, title TEXT)")
        conn.execute("INSERT INTO bookmarks VALUES ('about:blank', 'x')")
        conn.commit()


def of_a_newer_prsm(path):
    asyncio.run(_record(path, "s1"))
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA user_version = 999")
        conn.commit()


def of_an_earlier_prsm(path):
    asyncio.run(_record(path, "s1"))
    with closing(sqlite3.connect(path)) as conn:
        conn.executescript(EARLIER)


def torn(path):
    asyncio.run(_record(path, "s1"))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    for beside in ("-wal", "-shm"):
        path.with_name(path.name + beside).unlink(missing_ok=True)


def overwritten(path):
    """The pages behind the first one are another's."""
    asyncio.run(_record(path, "s1"))
    data = bytearray(path.read_bytes())
    data[4096:] = os.urandom(1) * (len(data) - 4096)
    path.write_bytes(data)


def strange(path):
    """Its rows can be read, and hold what nobody wrote."""
    asyncio.run(_record(path, "s1"))
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA ignore_check_constraints = ON")
        conn.execute("UPDATE events SET data = '[1, '")
        conn.execute("UPDATE agents SET state = 'dreaming', notes = '{'")
        conn.execute("UPDATE agent_specs SET tools = '{{'")
        conn.execute("UPDATE runs SET options = 'no', outcome = 'no'")
        conn.commit()


BAD = {
    "text": lambda path: path.write_text("this is no ledger\n" * 500),
    "json": lambda path: path.write_text(json.dumps({"sessions": [{"id": "s1"}] * 200})),
    "zeros": lambda path: path.write_bytes(bytes(64 * 1024)),
    "a folder": lambda path: path.mkdir(),
    "another program's": of_another_program,
    "a newer one": of_a_newer_prsm,
    "an earlier one": of_an_earlier_prsm,
    "torn": torn,
    "overwritten": overwritten,
    "strange": strange,
}
# What is asked for may stand where nothing is damaged.
MAY_WORK = {"strange", "overwritten", "torn"}
OFTEN = {"json", "a newer one", "an earlier one", "torn", "strange"}
KINDS = [pytest.param(kind, marks=() if kind in OFTEN else pytest.mark.long) for kind in BAD]


def test_every_command_is_in_one_of_the_tables():
    assert READ.keys() | READS_NONE == COMMANDS.keys()
    assert not READ.keys() & READS_NONE


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", READ)
def test_a_command_says_what_is_wrong_with_the_ledger_and_leaves_it(
    prsm, ledger, workspace, monkeypatch, name, kind
):
    monkeypatch.chdir(workspace)
    BAD[kind](ledger)
    before = ledger.read_bytes() if ledger.is_file() else None
    for words in READ[name]:
        done = prsm(*words)
        said = f"{words}: {done}"
        assert "Traceback" not in done.err, said
        if done.code == 0 and kind in MAY_WORK:
            continue
        assert done.code in {1, 2, 3}, said
        told = [line for line in done.err.splitlines() if line.startswith(("prsm: ", "hint: "))]
        assert any(line.startswith("prsm: ") for line in told), said
        assert any(line.startswith("hint: ") for line in told), said
    if kind not in MAY_WORK:
        assert (ledger.read_bytes() if ledger.is_file() else None) == before


def header_only(path):
    """Leave what an engine leaves that dies before the schema is written."""
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA journal_mode = WAL")


@pytest.mark.requirement("N24")
@pytest.mark.parametrize("make", [lambda path: path.touch(), header_only])
def test_a_ledger_that_was_never_begun_is_none_to_every_command(
    prsm, ledger, workspace, monkeypatch, make
):
    """An engine died as it made it, or somebody emptied it: `: > ledger.db`."""
    monkeypatch.chdir(workspace)
    commands = [words for name in READ for words in READ[name]] + [("doctor",)]
    asked = {words: prsm(*words) for words in commands}
    ledger.parent.mkdir(parents=True, exist_ok=True)
    make(ledger)
    before = ledger.read_bytes()
    for words, without in asked.items():
        done = prsm(*words)
        if words != ("doctor",):  # which tells of the disk, and of the folder
            assert done == without, words
        assert "damaged" not in done.out, words
        assert ledger.read_bytes() == before, words
