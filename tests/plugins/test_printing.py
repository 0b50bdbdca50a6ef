"""What plugins print while they are loaded goes to stderr with their name, never to stdout."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.site_folder import provider

LOAD = """
import logging, sys
sys.path.insert(0, {folder!r})
logging.basicConfig(format="%(message)s", level=logging.WARNING)
import threading
sys.modules["go"] = threading.Event()
from prsm_core import ProviderSpec
from prsm_core.plugins import PluginManager
print("before")
manager = PluginManager.load(environ={{"PRSM_PLUGINS": "loud", "PRSM_PLUGIN_TIMEOUT": "{seconds}"}})
{then}
print(next(record.state for record in manager.records if record.name == "loud"))
"""
FACTORY = "manager.implementation(manager.get(ProviderSpec, 'loud'))"
SHOUTS = {
    "print": "print('LOUD')",
    "sys.stdout": "import sys; sys.stdout.write('LOUD')",
    "lines": "import sys; sys.stdout.writelines(['LO', 'UD'])",
    "its bytes": "import sys; sys.stdout.buffer.write(b'LOUD')",
    "the first stdout": "import sys; sys.__stdout__.write('LOUD')",
    "the descriptor": "import os; os.write(1, b'LOUD')",
    "a program": "import subprocess; subprocess.run(['echo', 'LOUD'])",
}


def load(site, *, seconds=30, then="", **stdio):
    """Load the plugin `loud` in a process of its own."""
    code = LOAD.format(folder=str(site.folder), seconds=seconds, then=then)
    return subprocess.run(
        [sys.executable, "-c", code],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **stdio},
        text=True,
        timeout=60,
        check=True,
    )


@pytest.mark.requirement("C6")
@pytest.mark.parametrize("how", SHOUTS)
@pytest.mark.parametrize("where", ["at import", "in a hook", "before it fails"])
def test_what_a_plugin_prints_is_told_with_its_name(site, where, how):
    codes = {
        "at import": f"{SHOUTS[how]}\n{provider('loud')}",
        "in a hook": f"{provider('loud')}    {SHOUTS[how]}\n",
        "before it fails": f"{SHOUTS[how]}\nraise RuntimeError\n",
    }
    site.add("loud", codes[where])
    done = load(site)
    state = "broken" if where == "before it fails" else "active"
    assert done.stdout.splitlines() == ["before", state]
    assert done.stderr == "plugin loud printed while it was loaded: LOUD\n"


@pytest.mark.parametrize("how", ["print", "sys.stdout", "lines"])
def test_nothing_gets_to_a_stdout_that_is_held_in_memory(site, how):
    site.add("loud", f"{SHOUTS[how]}\n{provider('loud')}")
    held = "import io\nsys.stdout, out = io.StringIO(), sys.stdout\nmanager = PluginManager.load("
    code = LOAD.replace("manager = PluginManager.load(", held)
    back = "sys.stdout, held = out, sys.stdout.getvalue()\nprint(repr(held))"
    done = subprocess.run(
        [sys.executable, "-c", code.format(folder=str(site.folder), seconds=30, then=back)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines() == ["before", "''", "active"]
    assert done.stderr == "plugin loud printed while it was loaded: LOUD\n"


def test_what_its_object_prints_at_its_import_is_told_as_well(site):
    (site.folder / "late_module.py").write_text("print('LOUD')\nbuild = dict\n")
    site.add("loud", provider("loud").replace("json:loads", "late_module:build"))
    done = load(site, then=FACTORY)
    assert done.stdout.splitlines() == ["before", "active"]
    assert done.stderr == "plugin loud printed while it was loaded: LOUD\n"


def test_a_plugin_that_was_given_up_prints_nothing_to_stdout_later(site):
    code = "import sys\nsys.modules['go'].wait(30)\n"
    site.add("loud", f"{code}print('LOUD')\n")
    then = (
        "late = [thread for thread in threading.enumerate() if thread.daemon]\n"
        "sys.modules['go'].set()\n"
        "[thread.join(30) for thread in late]"
    )
    done = load(site, seconds=1, then=then)
    assert done.stdout.splitlines() == ["before", "slow"]
    assert done.stderr == "plugin loud printed while it was loaded: LOUD\n"


def test_a_plugin_that_keeps_stdout_can_write_to_it_once_it_is_loaded(site):
    site.add("loud", f"import sys\nsys.modules['kept'] = sys.stdout\n{provider('loud')}")
    done = load(site, then="sys.modules['kept'].write('later\\n'); sys.modules['kept'].flush()")
    assert done.stdout.splitlines() == ["before", "later", "active"]
    assert done.stderr == ""


def test_a_process_without_stdout_loads_plugins_all_the_same(site):
    site.add("loud", f"print('LOUD')\n{provider('loud')}")
    code = LOAD.format(folder=str(site.folder), seconds=30, then="")
    shell = ["sh", "-c", 'exec "$0" -c "$1" >&-', sys.executable, code]
    done = subprocess.run(shell, stderr=subprocess.PIPE, text=True, timeout=60, check=True)
    assert done.stderr == "plugin loud printed while it was loaded: LOUD\n"
