"""A plugin in quarantine is told by every run, and one that brings checks keeps runs from it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.site_folder import Site

GUARD = """
from prsm_core import Deny
async def check(request, context):
    return Deny("never") if "touch" in (request.command or "") else None
@hookimpl
def prsm_permission_checks():
    yield PermissionCheckSpec(name={name!r}, summary="", priority=1, check=check)
"""
BOOM = "@hookimpl\ndef prsm_event_sinks():\n    raise RuntimeError('boom')\n"
LOST = f"{GUARD.format(name='guard')}{BOOM}"
OTHER = """
@hookimpl
def prsm_providers():
    yield ProviderSpec(name="other", summary="", factory=lambda settings, services: None)
"""
UNKNOWN = "raise RuntimeError('boom')"
FRONTEND = """
class Quiet(Frontend):
    async def run(self, app):
        run = await app.runs.start(app.options.task)
        return (await run.result()).exit_code
@hookimpl
def prsm_frontends():
    yield FrontendSpec(
        name="quiet", summary="", interactive=False, priority=0, factory=lambda settings: Quiet()
    )
"""
REFUSED = (
    "prsm: plugin guard (prsm-guard 1.0) is broken: RuntimeError: boom; its permission checks are "
    "missing"
)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A healthy provider, and beside it whatever a test installs."""
    site = Site(tmp_path / "site")
    site.folder.mkdir()
    shutil.copy(Path(__file__).with_name("echo_plugin.py"), site.folder)
    site.add("echo", "from echo_plugin import *\nfrom echo_plugin import prsm_providers")
    monkeypatch.setenv("PYTHONPATH", str(site.folder))
    monkeypatch.setenv("PRSM_PLUGINS", "echo,guard,other,quiet")
    return site


def quarantined(out):
    """Return the events of a run that tell of plugins, in order."""
    events = [json.loads(line) for line in out.splitlines()]
    return [
        (event["plugin"], event["error"])
        for event in events
        if event["type"] == "plugin_quarantined"
    ]


@pytest.mark.requirement("C6", "F12")
def test_a_run_without_a_check_that_is_known_to_be_lost_is_refused_with_the_cure(
    site, prsm_process, workspace
):
    site.add("guard", LOST)
    done = prsm_process("run", "say hello")
    assert (done.code, done.out) == (2, "")
    assert REFUSED in done.err
    assert (
        "hint: mend it, or run without it: --without-plugin guard, or for good "
        "plugins.disabled: [guard]" in done.err
    )
    assert prsm_process("events").code != 0  # nothing was begun


@pytest.mark.requirement("C6", "F12")
def test_two_packages_with_one_check_keep_runs_from_starting_and_are_both_named(site, prsm_process):
    site.add("guard", GUARD.format(name="same"))
    site.add("other", GUARD.format(name="same"), version="2.0")
    done = prsm_process("run", "say hello")
    assert (done.code, done.out) == (2, "")
    clash = "permission check 'same' is registered by prsm-guard 1.0 and prsm-other 2.0"
    assert f"plugin guard (prsm-guard 1.0) is broken: {clash}" in done.err
    assert f"plugin other (prsm-other 2.0) is broken: {clash}" in done.err
    assert "--without-plugin guard --without-plugin other" in done.err
    left = prsm_process("run", "say hello", "--without-plugin", "guard")
    assert (left.code, left.out) == (0, "echo: say hello\n")


@pytest.mark.requirement("C6")
@pytest.mark.parametrize(
    ("args", "environ"),
    [
        (("--without-plugin", "guard"), {}),
        (("--set", "plugins.disabled=[guard]"), {}),
        ((), {"PRSM_DISABLED_PLUGINS": "guard"}),
        ((), {"PRSM_PLUGINS": "echo"}),
    ],
)
def test_a_person_may_run_without_the_plugin(site, prsm_process, monkeypatch, args, environ):
    site.add("guard", LOST)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    done = prsm_process("run", "say hello", "--json", *args)
    assert (done.code, quarantined(done.out)) == (0, [])
    assert "guard" not in done.err


def test_a_required_check_is_required_without_its_plugin_too(site, prsm_process):
    site.add("guard", GUARD.format(name="guard"))
    args = ("--without-plugin", "guard", "--set", "permissions.required=[guard]")
    done = prsm_process("run", "say hello", *args)
    assert (done.code, done.out) == (2, "")
    assert "disabled by --without-plugin" in done.err


@pytest.mark.requirement("C6")
def test_every_run_tells_what_is_in_quarantine_and_that_a_check_may_be_missing(site, prsm_process):
    site.add("other", UNKNOWN)
    site.add("guard", BOOM)
    unknown = (
        "RuntimeError: boom; permission checks may be missing: it did not come far enough to say"
    )
    events = [("guard", "RuntimeError: boom"), ("other", unknown)]
    done = prsm_process("run", "say hello", "--json")
    assert (done.code, quarantined(done.out)) == (0, events)
    warning = f"prsm: warning: plugin other (prsm-other 1.0) is not used, it is broken: {unknown}\n"
    assert warning in done.err
    shown = prsm_process("run", "say hello")
    assert (shown.code, shown.out) == (0, "echo: say hello\n")
    for name, error in events:
        assert shown.err.count(f"warning: plugin {name} is not used: {error}\n") == 1
    assert shown.err.count("plugin other") == 1


@pytest.mark.requirement("C6")
def test_all_other_commands_go_on_while_runs_are_refused(site, prsm_process):
    site.add("guard", LOST)
    assert prsm_process("providers", "--json").code == 0
    assert prsm_process("config", "show").code == 0
    assert prsm_process("policy", "list").code == 0
    assert prsm_process("models", "list").code == 0
    judged = prsm_process("policy", "check", "ls")
    assert (judged.code, judged.out.startswith("allow")) == (0, True)
    assert "its permission checks are missing" in judged.err
    examined = prsm_process("doctor", "--json")
    lost = [row for row in json.loads(examined.out) if "checks are missing" in row["message"]]
    assert [(row["status"], row["check"]) for row in lost] == [("broken", "plugins")]
    assert "guard (prsm-guard 1.0) is broken: RuntimeError: boom" in lost[0]["message"]


@pytest.mark.requirement("C6")
@pytest.mark.long
def test_a_demonstration_by_a_plugins_frontend_is_refused_as_a_run_is(site, prsm_process):
    site.add("guard", LOST)
    site.add("quiet", FRONTEND)
    done = prsm_process("demo", "--ui", "quiet")
    assert (done.code, REFUSED in done.err) == (2, True)
    assert prsm_process("demo", "--ui", "quiet", "--without-plugin", "guard").code == 0
    assert prsm_process("demo", "--json").code == 0  # which needs no plugin


@pytest.mark.requirement("C6", "E63")
def test_a_peer_model_of_a_plugin_in_quarantine_is_left_out_with_what_is_wrong(
    site, prsm_process, monkeypatch
):
    site.add("other", f"{OTHER}{BOOM}")
    monkeypatch.setenv("PRSM__DEFAULTS__PEER_MODELS", json.dumps(["other/good"]))
    done = prsm_process("models", "recommend", "Fix the bug", "--json")
    [why] = json.loads(done.out)["problems"]
    assert why.startswith("a peer model is left out: model 'other/good' needs provider 'other'")
    assert "plugin other (prsm-other 1.0) is broken: RuntimeError: boom" in why


@pytest.mark.requirement("C6")
def test_what_a_plugin_prints_gets_into_no_output_for_programs(site, prsm_process):
    sink = "print('LOUD')\nfrom prsm_core import EventSink\nclass Sink(EventSink):\n"
    sink += "    def __init__(self, run, settings): pass\n    async def write(self, batch): pass\n"
    (site.folder / "loud_sink.py").write_text(sink)
    site.add(
        "other",
        "print('LOUD')\n@hookimpl\ndef prsm_event_sinks():\n    print('LOUD')\n"
        "    yield EventSinkSpec(name='loud', summary='', factory='loud_sink:Sink')\n",
    )
    for args in (("plugins", "--json"), ("providers", "--json"), ("run", "say hello", "--json")):
        done = prsm_process(*args)
        assert (done.code, "LOUD" in done.out) == (0, False)
        assert "plugin other printed while it was loaded: LOUD" in done.err
        assert done.err.count("LOUD") == (3 if args[0] == "run" else 2)
