"""The shell completes commands, options and values, and imports nothing heavy for it."""

import json
import shutil
import subprocess
import sys

import pytest

from prsm_core.cli.group import COMMANDS
from tests.cli.test_launcher import HEAVY


def completed(words, *, shell="bash"):
    """Return what the shell is told for a line, its last word incomplete, and what was loaded."""
    code = (
        "import sys, json, atexit\n"
        "atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))\n"
        "from prsm_core.cli import main\nsys.exit(main())"
    )
    count = {"fish": words[-1]}.get(shell, str(len(words) - 1))
    environ = {
        "_PRSM_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": count,
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout, set(json.loads(done.stderr.splitlines()[-1]))


def offered(*words):
    return {line.partition(",")[2] for line in completed(["prsm", *words])[0].splitlines()}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_command_is_completed_in_every_shell(shell):
    out, _ = completed(["prsm", "doct"], shell=shell)
    assert "doctor" in out
    assert "providers" not in out
    assert ("say how to mend it" in out) == (shell != "bash")


LIGHT = (
    *("", ".cli", ".cli.callers", ".cli.group", ".cli.launch", ".distributions", ".version"),
    *(".loop", ".loop.interrupts", ".loop.leaving"),
)


def test_all_commands_are_offered_without_importing_any():
    out, modules = completed(["prsm", ""])
    assert {line.partition(",")[2] for line in out.splitlines()} == set(COMMANDS)
    ours = {name for name in modules if name.startswith("prsm_")}
    assert ours == {f"prsm_core{name}" for name in LIGHT}
    assert not modules & HEAVY


def test_options_and_values_are_completed_and_stay_cheap():
    assert "--no-plugins" in offered("--no")
    assert offered("run", "--mode", "p") == {"plan"}
    assert offered("config", "s") == {"show", "schema"}
    _, modules = completed(["prsm", "run", "--"])
    assert not modules & (HEAVY - {"dataclasses"})


def test_a_real_bash_completes(tmp_path):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    program = tmp_path / "prsm"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nfrom prsm_core.cli import main\nsys.exit(main())\n"
    )
    program.chmod(0o755)
    script = (
        f'PATH={tmp_path}:$PATH\neval "$(_PRSM_COMPLETE=bash_source prsm)"\n'
        'COMP_WORDS=(prsm hist)\nCOMP_CWORD=1\n_prsm_completion prsm hist prsm\necho "$COMPREPLY"\n'
    )
    done = subprocess.run([bash, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("history\n", "")
