"""`prsm` alone, in tmux on a terminal, by keys and mouse: runs go on while nobody looks."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess

import pytest

from plugins.prsm_tui.tests.terminals import CTRL_C, ESC, F2, PRSM, Terminal, world

F5 = "\x1b[15~"
ASKS = {
    "lanes": {
        "master": {
            "steps": [
                {"ask_user": {"id": "x", "question": "Which?", "options": ["red", "blue"]}},
                {"say": "It is ${x.choices}."},
            ]
        }
    }
}

pytestmark = [
    pytest.mark.requirement("D3"),
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]


class Shop:
    """A user's world, in which agents follow a script, and a shell in tmux on a terminal."""

    def __init__(self, folder):
        self.env = world(folder, "xterm-256color", SHELL="/bin/sh", PS1="ready> ")
        self.folder = folder / "work"
        self.folder.mkdir()
        scenario, home = folder / "scenario.json", folder / "prsm"
        scenario.write_text(json.dumps(ASKS))
        home.mkdir()
        (home / "config.yaml").write_text(
            f"defaults: {{provider: script}}\nproviders: {{script: {{scenario: {scenario}}}}}\n"
        )
        (folder / "tmux.conf").write_text("set -g mouse on\nset -g escape-time 10\n")
        tmux = ["tmux", "-S", str(folder / "tmux.socket"), "-f", str(folder / "tmux.conf")]
        self._tmux = tmux
        argv = [*tmux, "new-session", "env", "-u", "TMUX", "sh"]
        self.terminal = Terminal(argv, self.env, 30, 100, cwd=self.folder)

    def run(self, *words):
        argv = [str(PRSM), *words]
        done = subprocess.run(argv, env=self.env, cwd=self.folder, capture_output=True, check=True)
        return done.stdout.decode()

    def sessions(self):
        """Return all sessions by their tasks."""
        return {row["task"]: row for row in json.loads(self.run("sessions", "list", "--json"))}

    def close(self):
        for row in self.sessions().values():
            if row["pid"] is not None:
                os.kill(row["pid"], signal.SIGKILL)
        subprocess.run([*self._tmux, "kill-server"], env=self.env, check=False)
        self.terminal.close()


@pytest.fixture
def shop(tmp_path):
    shop = Shop(tmp_path)
    yield shop
    shop.close()


def begin(terminal, task):
    """Begin a session from the list, and come back to it."""
    terminal.type("n")
    terminal.sees("a new session")
    terminal.type(f"{task}\r")
    terminal.sees("NEEDS YOU: 1 (F2)", f"run running · {task}")
    terminal.type(F5)
    terminal.sees("Enter open", f"? {task}")


def leave(terminal):
    """Leave by the second Ctrl+C; the first says that what runs goes on."""
    terminal.type(CTRL_C)
    terminal.sees("Ctrl+C again leaves: what runs goes on (2: ")
    terminal.type(CTRL_C)
    terminal.sees("left with 0")


def start(terminal):
    terminal.type(f"clear; {PRSM}; echo left with $?\r")


def test_sessions_are_begun_left_come_back_to_clicked_answered_and_gone_on_with(shop):
    terminal = shop.terminal
    terminal.sees("ready>")
    start(terminal)
    terminal.sees("sessions: none yet; n begins one")
    begin(terminal, "paint the door")
    begin(terminal, "paint the roof")
    leave(terminal)
    rows = shop.sessions()
    assert {row["status"] for row in rows.values()} == {"running"}
    os.kill(rows["paint the roof"]["pid"], signal.SIGKILL)

    start(terminal)
    terminal.sees("NEEDS YOU (1)", "? paint the door", "/ paint the roof", "interrupted")
    terminal.click(*terminal.find("/ paint the roof"))
    terminal.type("r")  # of the one that was clicked
    terminal.sees("NEEDS YOU (2)", "? paint the roof")
    terminal.click(*terminal.find("? paint the door"))
    terminal.click(*terminal.find("? paint the door"))
    terminal.sees("run running · paint the door", "elsewhere: 1 needs you (F5)")
    terminal.type(F2)
    terminal.sees("2. blue", "a number or a text, then Enter")
    terminal.type("2\r")
    terminal.sees("Nothing waits for you")
    terminal.type(ESC)
    terminal.sees('It is ["blue"].', "the run is completed")
    terminal.type(F5)
    terminal.sees("NEEDS YOU (1)", "x paint the door")
    terminal.click(*terminal.find("? paint the roof"))
    terminal.sees("waits for you: master: Which?")
    terminal.type("a")
    terminal.sees("1. red", "a number or a text, then Enter")
    terminal.type("1\r")
    terminal.sees("Nothing waits for you")
    terminal.type(ESC)
    terminal.sees("DONE (2)", 'It is ["red"].')
    assert {row["status"] for row in shop.sessions().values()} == {"completed"}
