"""What the package says of itself: the spec, its tables, and what it does not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import prsm_tui
import pytest
from prsm_tui.commands import COMMANDS, completed, read_command, unknown
from prsm_tui.plugin import prsm_frontends

from plugins.prsm_tui.tests.reference import DOCUMENTS, made

PACKAGE = Path(prsm_tui.__file__).parent


def test_one_is_opened_by_its_name_and_the_one_of_many_by_prsm_alone():
    one, many = prsm_frontends()
    assert (one.name, one.scope, one.stays, one.interactive) == ("tui", "session", True, True)
    assert one.priority < 10, "the console is what `prsm run` opens unasked"
    assert (many.name, many.scope, many.stays, many.section) == ("sessions", "hub", True, "tui")
    assert many.priority > one.priority


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_have_the_keys_and_commands_of_the_code(document):
    text = document.read_text(encoding="utf-8")
    assert made(text) == text, "write them anew: python plugins/prsm_tui/tests/reference.py"


def loaded_by(code):
    """Return the modules that a fresh interpreter has after some code."""
    script = f"import sys\n{code}\nprint(*sys.modules)"
    argv = [sys.executable, "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import prsm_tui.plugin; list(prsm_tui.plugin.prsm_frontends())",
        "import prsm_tui.hub_frontend, prsm_tui.hub_frontend, prsm_tui.settings",
        "import prsm_tui.model.session, prsm_tui.pump, prsm_tui.acts, prsm_tui.commands",
        "import prsm_tui.model.sessions, prsm_tui.rounds, prsm_tui.hub_acts, prsm_tui.hub_acts",
    ],
)
def test_nothing_but_the_screen_loads_textual(code):
    loaded = loaded_by(code)
    assert "prsm_core" in loaded
    assert not loaded & {"textual", "rich"}


def test_widgets_call_nothing_of_the_session():
    """Only what acts, what reads and what opens the screen know an application of PRSM."""
    known = {
        path.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name | ast.alias)
        and (getattr(node, "id", None) or getattr(node, "name", None)) in {"AppHandle", "Hub"}
    }
    one = {"acts.py", "pump.py", "opening.py"}
    assert known == one | {"hub_acts.py", "rounds.py", "hub_frontend.py"}


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("/kill w1", ("kill", "w1")),
        ("  /Help ", ("help", "")),
        ("/usr/bin/make is broken", None),
        ("hello /kill", None),
        ("/restart once\nmore", ("restart", "once\nmore")),
    ],
)
def test_a_command_is_told_from_a_text(typed, read):
    assert read_command(typed) == read


def test_an_unknown_command_names_the_nearest():
    assert "/quit" in unknown("quti")
    assert "/mode or /model?" in unknown("modle"), "both are as near"
    assert all(f"/{name}" in unknown("zzz") for name in COMMANDS)
    assert completed("/k") == ["/kill"]
