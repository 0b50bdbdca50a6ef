"""Real distributions that are broken in every way: shown with their errors, and in nobody's way."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.site_folder import Site, provider

# Name of the plugin: its code, what its distribution requires, state, and a part of the error.
FAULTS = {
    "no-import": ("import no_such_module", (), "broken", "No module named 'no_such_module'"),
    "other-hook": (
        "@hookimpl\ndef prsm_provider():\n    return []",
        (),
        "incompatible",
        "there is no hook 'prsm_provider'; did you mean 'prsm_providers'?",
    ),
    "other-record": (
        "@hookimpl\ndef prsm_frontends():\n    return ['console']",
        (),
        "broken",
        "prsm_frontends gave a str, not a FrontendSpec",
    ),
    "twin-a": (provider("twin"), (), "broken", "'twin' is registered by prsm-twin-a 1.0 and"),
    "twin-b": (provider("twin"), (), "broken", "and prsm-twin-b 1.0"),
    "too-old": (provider("too-old"), ("prsm-core<0.1",), "incompatible", "needs prsm-core <0.1"),
    "exits": ("import sys\nsys.exit(7)", (), "broken", "SystemExit: 7"),
    # Longer than a test waits for a command: it fails unless the hook is cut off.
    "stuck": (
        "@hookimpl\ndef prsm_providers():\n    import time\n    time.sleep(600)\n    return []",
        (),
        "slow",
        "did not answer within 3 s",
    ),
}


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A healthy provider, and beside it whatever a test installs."""
    site = Site(tmp_path / "site")
    site.folder.mkdir()
    shutil.copy(Path(__file__).with_name("echo_plugin.py"), site.folder)
    site.add("echo", "from echo_plugin import *\nfrom echo_plugin import prsm_providers")
    monkeypatch.setenv("PYTHONPATH", str(site.folder))
    monkeypatch.setenv("PRSM_PLUGIN_TIMEOUT", "3")
    monkeypatch.setenv("PRSM_PLUGINS", ",".join(["echo", "guard", *FAULTS]))
    return site


@pytest.fixture
def broken(site):
    for name, (code, requires, _, _) in FAULTS.items():
        site.add(name, code, requires=requires)


@pytest.mark.requirement("C6", "F12")
def test_every_broken_plugin_is_shown_with_its_error_and_the_exit_code_is_1(broken, prsm_process):
    done = prsm_process("plugins", "--json")
    assert done.code == 1
    rows = {row["name"]: row for row in json.loads(done.out)}
    for name, (_, _, state, error) in FAULTS.items():
        assert (rows[name]["state"], rows[name]["distribution"]) == (state, f"prsm-{name}")
        assert error in rows[name]["error"]
    assert rows["echo"]["state"] == "active"


@pytest.mark.requirement("C6", "F12")
def test_broken_plugins_stop_no_command(broken, prsm_process):
    assert prsm_process("--help").code == 0
    done = prsm_process("run", "say hello")
    assert (done.code, done.out) == (0, "echo: say hello\n")


@pytest.mark.requirement("C6")
@pytest.mark.parametrize("name", FAULTS)
def test_asking_for_a_broken_plugin_by_name_tells_its_own_error(name, site, prsm_process):
    for fault, (code, requires, _, _) in FAULTS.items():
        if fault == name or {fault, name} == {"twin-a", "twin-b"}:
            site.add(fault, code, requires=requires)
    _, _, state, error = FAULTS[name]
    done = prsm_process("run", "say hello", "--provider", name)
    assert (done.code, done.out) == (2, "")
    said = next(line for line in done.err.splitlines() if line.startswith("prsm: provider"))
    assert f"plugin {name} (prsm-{name} 1.0) is {state}: " in said
    assert error in said


def test_asking_for_the_frontend_of_a_broken_plugin_tells_its_own_error(site, prsm_process):
    site.add("exits", FAULTS["exits"][0])
    done = prsm_process("run", "say hello", "--ui", "exits")
    assert (done.code, done.out) == (2, "")
    assert "frontend 'exits': plugin exits (prsm-exits 1.0) is broken: SystemExit: 7" in done.err


def test_the_provider_of_the_configuration_counts_as_asked_for_by_name(site, prsm_process):
    site.add("exits", FAULTS["exits"][0])
    done = prsm_process("run", "say hello", "--set", "defaults.provider=exits")
    assert (done.code, done.out) == (2, "")
    assert "plugin exits (prsm-exits 1.0) is broken: SystemExit: 7" in done.err


KINDS = {
    "own model": ("--model", "exits/big"),
    "its name as a model": ("--model", "exits"),
    "an alias": ("--model", "best", "--set", "models.best={provider: exits, model_id: big}"),
    "default model": ("--set", "defaults.model=exits/big"),
    "a kind": ("--provider", "mine", "--set", "providers.mine.kind=exits"),
    "a model of a kind": ("--model", "mine/big", "--set", "providers.mine.kind=exits"),
}


@pytest.mark.parametrize("how", KINDS)
def test_however_a_provider_is_named_the_plugin_that_has_it_is_told_with_the_cure(
    how, site, prsm_process
):
    site.add("exits", FAULTS["exits"][0])
    done = prsm_process("run", "say hello", *KINDS[how])
    assert (done.code, done.out) in {(2, ""), (3, "")}
    *_, said, hint = done.err.splitlines()
    assert said.startswith("prsm: ")
    assert "plugin exits (prsm-exits 1.0) is broken: SystemExit: 7" in said
    assert hint == "hint: `prsm doctor` tells what to do; --debug shows the traceback"


def test_a_plugin_that_is_switched_off_is_told_to_whoever_names_its_model(site, prsm_process):
    site.add("exits", provider("exits"))
    done = prsm_process("run", "say hello", "--model", "exits/big", "--without-plugin", "exits")
    assert "plugin exits (prsm-exits 1.0) is disabled: disabled by --without-plugin" in done.err
    assert "hint: leave out that option, or take it off that list" in done.err


def test_a_plugin_that_could_not_say_what_it_has_is_told_with_a_provider_that_is_missing(
    site, prsm_process
):
    site.add("exits", FAULTS["exits"][0])
    done = prsm_process("run", "say hello", "--provider", "other")
    assert "provider 'other' is not installed" in done.err
    assert "; plugin exits (prsm-exits 1.0) is broken: SystemExit: 7; `prsm doctor`" in done.err


def test_doctor_names_the_plugin_that_has_the_default_provider(site, prsm_process):
    site.add("exits", FAULTS["exits"][0])
    home = Path(os.environ["PRSM_HOME"])
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text("defaults: {provider: exits}\n")
    done = prsm_process("doctor")
    assert "names exits: plugin exits, which has it, is broken: SystemExit: 7" in done.out


POLICY = """
from prsm_core import Deny
async def check(request, context):
    return Deny("no")
@hookimpl
def prsm_permission_checks():
    yield PermissionCheckSpec(name="nothing", summary="", priority=1, check={check})
"""
REQUIRED = ("--set", "permissions.required=[nothing]")


@pytest.mark.requirement("F12")
def test_a_run_starts_with_the_check_that_is_required(site, prsm_process):
    site.add("guard", POLICY.format(check="check"))
    assert prsm_process("run", "say hello", *REQUIRED).code == 0


@pytest.mark.requirement("F12")
@pytest.mark.parametrize(
    ("code", "flags", "said"),
    [
        ("raise RuntimeError('boom')", (), "plugin guard is broken: RuntimeError: boom"),
        (POLICY.format(check="'no.such:check'"), (), "No module named 'no'"),
        (POLICY.format(check="check"), ("--no-plugins",), "there is no permission check 'nothing'"),
        ("", (), "there is no permission check 'nothing'"),
    ],
)
def test_no_run_starts_without_a_check_that_is_required(site, prsm_process, code, flags, said):
    if code:
        site.add("guard", code)
    done = prsm_process(*flags, "run", "say hello", *REQUIRED)
    assert (done.code, done.out) == (2, "")
    assert "prsm: permissions.required: " in done.err
    assert said in done.err


LAZY = """
@hookimpl
def prsm_event_sinks():
    return [EventSinkSpec(name={name!r}, summary="", factory="{module}:build")]
"""


@pytest.mark.requirement("C6", "U18")
@pytest.mark.parametrize("where", ["in its hook", "in what it names"])
def test_what_is_slow_is_called_slow_and_costs_nobody_the_output(
    where, site, prsm_process, monkeypatch
):
    """A healthy package that comes after it is not called broken either."""
    (site.folder / "lazy_parts.py").write_text("import time\ntime.sleep(600)\n")
    (site.folder / "well_parts.py").write_text("def build(settings):\n    return None\n")
    code = FAULTS["stuck"][0] if where == "in its hook" else LAZY
    site.add("lazy", code.replace("{name!r}", "'lazy'").replace("{module}", "lazy_parts"))
    site.add("well", LAZY.format(name="well", module="well_parts"))
    monkeypatch.setenv("PRSM_PLUGINS", "echo,lazy,well")
    done = prsm_process("doctor")
    told = " ".join(done.out.split())
    assert "lazy (prsm-lazy 1.0) is slow: " in told
    assert "cure: give it more time, in seconds: PRSM_PLUGIN_TIMEOUT=60, or leave it out" in told
    assert "broken plugins" not in told
    assert "ok terminal" in told or "warning terminal" in told


def test_a_run_names_what_gives_a_slow_plugin_more_time(site, prsm_process):
    site.add("stuck", FAULTS["stuck"][0])
    done = prsm_process("run", "say hello")
    assert done.code == 0
    (told,) = [line for line in done.err.splitlines() if "plugin stuck is not used" in line]
    assert "did not answer within 3 s" in told
    assert "PRSM_PLUGIN_TIMEOUT=60" in told


def test_checks_of_a_slow_plugin_are_lost_as_those_of_a_broken_one(site, prsm_process):
    hook = "@hookimpl\ndef prsm_permission_checks():\n    import time\n    time.sleep(600)"
    site.add("stuck", hook)
    done = prsm_process("run", "say hello")
    assert (done.code, done.out) == (2, "")
    assert "hint: give it more time, in seconds: PRSM_PLUGIN_TIMEOUT=60, or run without" in done.err
