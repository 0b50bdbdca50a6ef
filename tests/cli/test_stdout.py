"""What plugins print while they work never gets to stdout, which is the command's."""

import json
import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.requirement("C5", "C6")

# How the plugin prints, and whether its name is told: what goes to the descriptor has none.
WAYS = {
    "print": True,
    "sys.stdout": True,
    "lines": True,
    "a thread": False,
    "the first stdout": False,
    "its bytes": False,
    "the descriptor": False,
    "a program": False,
}
MODELS = "model_registry:\n  m1: {provider: puppet, tier: strong}\n"
TASK = "send run ls; say done"


@pytest.fixture
def loud(puppets, tmp_path, monkeypatch):
    """Install loud_plugin.py beside the provider; returns how to say in which way it prints."""
    site = tmp_path / "site"
    info = site / "prsm_loud-1.0.dist-info"
    info.mkdir()
    shutil.copy(Path(__file__).with_name("loud_plugin.py"), site)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: prsm-loud\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[prsm]\nloud = loud_plugin\n")
    monkeypatch.setenv("PRSM_PLUGINS", "puppet,loud")
    return lambda way: monkeypatch.setenv("LOUD", way)


@pytest.mark.parametrize("way", WAYS)
def test_the_events_of_a_run_are_all_that_stdout_gets(loud, prsm_process, way):
    loud(way)
    done = prsm_process("run", "--json", TASK)
    events = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 0, done.err
    assert events[-1]["type"] == "run_finished"
    assert "LOUD check" in done.err
    assert "LOUD sink" in done.err
    assert ("of prsm-loud 1.0 (" in done.err) == WAYS[way], done.err


def test_the_summary_of_a_run_is_all_that_stdout_gets(loud, prsm_process):
    loud("print")
    done = prsm_process("run", TASK)
    assert (done.code, done.out) == (0, "done\n")
    assert "LOUD sink" in done.err


def test_a_frontend_of_a_plugin_prints_on_its_own_stdout_and_others_do_not(loud, prsm_process):
    loud("print")
    done = prsm_process("run", TASK, "--ui", "face")
    assert done.code == 0, done.err
    assert "the face says done\n" in done.out


@pytest.mark.parametrize("way", ["print", "a program"])
@pytest.mark.parametrize(
    "args", [("policy", "check", "ls", "--json"), ("models", "recommend", "a task", "--json")]
)
def test_commands_that_ask_checks_and_scorers_print_their_json_alone(
    loud, prsm_process, args, way, tmp_path
):
    loud(way)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.yaml").write_text(MODELS)
    done = prsm_process(*args)
    json.loads(done.out)
    assert "LOUD" not in done.out
    assert "LOUD" in done.err
