"""Settings of every kind of plugin, from the configuration to the object that they are for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.site_folder import Site

MODELS = """
from typing import Annotated
from msgspec import Meta, Struct
class Tell(Struct):
    path: str
    pin: Annotated[str, Meta(extra_json_schema={"writeOnly": True})] | None = None
class Guard(Struct):
    words: tuple[str, ...] = ("touch",)
class Taste(Struct):
    favourite: str = ""
class Greet(Struct):
    greeting: str = "hello"
"""
PLUGIN = """
from pathlib import Path
from prsm_core import Deny

class Sink(EventSink):
    def __init__(self, run, settings):
        self.path = Path(settings.path)

    async def write(self, batch):
        with self.path.open("a") as file:
            file.writelines(event.type + "\\n" for event in batch)

async def check(request, context, settings):
    words = (request.command or "").split()
    return Deny(f"no {words[0]}") if words and words[0] in settings.words else None

def taste(model, task, settings):
    return 1.0 if model.model_id == settings.favourite else 0.0

class Greeter(Frontend):
    def __init__(self, options, settings):
        assert options["interactive"] is False
        self.greeting = settings.greeting

    async def run(self, app):
        print(self.greeting)
        return (await (await app.runs.start(app.options.task)).result()).exit_code

@hookimpl
def prsm_event_sinks():
    yield EventSinkSpec(name="tell", summary="", factory=Sink, settings="five_models:Tell")

@hookimpl
def prsm_permission_checks():
    yield PermissionCheckSpec(
        name="guard", summary="", priority=1, check=check, settings="five_models:Guard"
    )

@hookimpl
def prsm_model_scorers():
    yield ModelScorerSpec(
        name="taste", summary="", weight=100, score=taste, settings="five_models:Taste"
    )

@hookimpl
def prsm_frontends():
    yield FrontendSpec(
        name="greet", summary="", interactive=False, priority=0, factory=Greeter,
        settings="five_models:Greet",
    )
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """The plugin `five`, with a record of each kind, beside a provider."""
    site = Site(tmp_path / "site")
    site.folder.mkdir()
    shutil.copy(Path(__file__).with_name("echo_plugin.py"), site.folder)
    (site.folder / "five_models.py").write_text(MODELS)
    site.add("echo", "from echo_plugin import *\nfrom echo_plugin import prsm_providers")
    site.add("five", PLUGIN)
    monkeypatch.setenv("PYTHONPATH", str(site.folder))
    monkeypatch.setenv("PRSM_PLUGINS", "echo,five")
    return site


@pytest.fixture
def configure(tmp_path):
    """Write the user's configuration."""
    path = tmp_path / "home" / "config.yaml"

    def write(text):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_text(text)
        return path

    return write


@pytest.mark.requirement("E43", "C5")
def test_a_sink_and_a_frontend_get_an_instance_of_their_model(
    site, configure, prsm_process, tmp_path
):
    log = tmp_path / "log"
    configure(f"sinks: {{tell: {{path: {log}}}}}\nfrontends: {{greet: {{greeting: hey}}}}\n")
    done = prsm_process("run", "say hello", "--ui", "greet")
    assert (done.code, done.out) == (0, "hey\n")
    assert log.read_text().splitlines()[0] == "run_started"
    assert log.read_text().splitlines()[-1] == "run_finished"


def test_a_demonstration_gives_its_frontend_what_the_user_has_set(site, configure, prsm_process):
    configure("frontends: {greet: {greeting: hey}}\n")
    assert prsm_process("demo", "--ui", "greet").out.startswith("hey\n")
    configure("frontends: {greet: {greting: hey}}\n")
    done = prsm_process("demo", "--ui", "greet")
    assert (done.code, "config.yaml:1: frontends.greet.greting is not" in done.err) == (2, True)


@pytest.mark.requirement("E43", "C5")
def test_a_check_gets_an_instance_of_its_model(site, configure, prsm_process):
    denied = prsm_process("policy", "check", "touch x")
    assert (denied.code, "no touch" in denied.out) == (1, True)
    configure("checks: {guard: {words: [ls]}}\n")
    denied = prsm_process("policy", "check", "ls")
    assert (denied.code, "no ls" in denied.out) == (1, True)


@pytest.mark.requirement("E43", "C5")
def test_a_scorer_gets_an_instance_of_its_model(site, configure, prsm_process):
    entry = "{provider: echo, tier: strong}"
    registry = f"model_registry: {{a: {entry}, b: {entry}}}\n"
    for favourite in ("a", "b"):
        configure(f"{registry}scorers: {{taste: {{favourite: {favourite}}}}}\n")
        done = prsm_process("models", "recommend", "Fix the bug", "--json")
        assert json.loads(done.out)["models"][0]["model"] == f"echo/{favourite}"


def test_a_sink_that_lacks_what_it_needs_is_left_out_and_told(site, prsm_process):
    done = prsm_process("run", "say hello", "--json")
    assert done.code == 0
    notices = [e["text"] for e in map(json.loads, done.out.splitlines()) if e["type"] == "notice"]
    assert any("tell" in text and "sinks.tell.path is missing" in text for text in notices)
    examined = json.loads(prsm_process("doctor", "--json").out)
    assert ("warning", "sinks.tell.path is missing") in [
        (row["status"], row["message"]) for row in examined
    ]


NEEDY = PLUGIN.replace('settings="five_models:Guard"', 'settings="five_models:Tell"')
NO_MODEL = PLUGIN.replace('settings="five_models:Guard"', 'settings="five_models:Nobody"')
NOT_A_MODEL = PLUGIN.replace('settings="five_models:Guard"', 'settings="json:loads"')


@pytest.mark.requirement("F12", "C6")
@pytest.mark.parametrize(
    ("code", "said"),
    [
        (NEEDY, "checks.guard.path is missing"),
        (NO_MODEL, "plugin needy: cannot import 'five_models:Nobody'"),
        (NOT_A_MODEL, "plugin needy: the settings of 'guard' are no msgspec.Struct"),
    ],
)
def test_no_run_starts_without_the_settings_that_a_check_needs(
    site, prsm_process, monkeypatch, code, said
):
    site.add("needy", code)
    monkeypatch.setenv("PRSM_PLUGINS", "echo,needy")
    done = prsm_process("run", "say hello")
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert prsm_process("config", "show").code == 0
    rows = json.loads(prsm_process("doctor", "--json").out)
    assert ("broken", True) in [(row["status"], said in row["message"]) for row in rows]


@pytest.mark.requirement("E43")
def test_a_mistake_is_told_with_its_line_by_every_command_that_loads_plugins(
    site, configure, prsm_process
):
    path = configure("checks:\n  guard:\n    word: [ls]\n")
    for args in (("run", "say hello"), ("config", "show"), ("policy", "check", "ls")):
        done = prsm_process(*args)
        assert (done.code, done.out) == (2, "")
        said = f"{path}:3: checks.guard.word is not a setting; did you mean words?"
        assert said in done.err


@pytest.mark.requirement("F12")
def test_settings_of_a_check_that_is_not_there_keep_runs_from_starting(
    site, configure, prsm_process
):
    path = configure("checks:\n  gaurd: {words: [ls]}\nsinks:\n  tel: {path: x}\n")
    done = prsm_process("run", "say hello")
    assert (done.code, done.out) == (2, "")
    assert f"{path}:2: checks.gaurd has no effect" in done.err
    assert "did you mean guard?" in done.err
    shown = prsm_process("config", "show")
    assert shown.code == 0
    assert f"prsm: note: {path}:2: checks.gaurd has no effect" in shown.err
    assert f"prsm: note: {path}:4: sinks.tel has no effect" in shown.err
    assert "did you mean tell?" in shown.err


def test_who_leaves_the_plugin_out_may_keep_its_settings(site, configure, prsm_process):
    path = configure("checks:\n  guard: {words: [ls]}\n")
    done = prsm_process("run", "say hello", "--without-plugin", "five")
    assert (done.code, done.out) == (0, "echo: say hello\n")
    assert f"prsm: note: {path}:2: checks.guard has no effect" in done.err


@pytest.mark.requirement("E43", "U19")
def test_the_settings_in_force_are_shown_without_secrets(site, configure, prsm_process):
    configure("sinks: {tell: {path: x, pin: '1234'}}\nchecks: {guard: {words: [ls]}}\n")
    shown = json.loads(prsm_process("config", "show", "--json").out)
    assert shown["sinks"] == {"tell": {"path": "x", "pin": "(hidden)"}}
    assert shown["checks"] == {"guard": {"words": ["ls"]}}


@pytest.mark.requirement("E43")
def test_the_schema_knows_what_the_installed_plugins_take(site, configure, prsm_process):
    schema = json.loads(prsm_process("config", "schema").out)
    jsonschema.validate({"sinks": {"tell": {"path": "x"}, "jsonl": {"path": "y"}}}, schema)
    refused: list[Any] = [{"sinks": {"tell": {}}}, {"checks": {"guard": {"word": []}}}]
    for wrong in refused:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)
    configure("engine: {max_depth: 3}\n")
    done = prsm_process("config", "schema")
    assert (done.code, "tell" in json.loads(done.out)["properties"]["sinks"]["properties"]) == (
        0,
        False,
    )
    assert "prsm: note: what plugins take is left out" in done.err


@pytest.mark.requirement("E43")
def test_old_keys_are_told_by_commands_and_by_the_doctor(site, configure, prsm_process):
    path = configure("plugins:\n  github: {command: sh}\nengine: {command_policy: default}\n")
    told = (
        f"{path}:2: plugins.github is an MCP server: write mcp_servers.github",
        f"{path}:3: engine.command_policy has no effect, delete it",
    )
    shown = prsm_process("config", "show", "--json")
    assert json.loads(shown.out)["mcp_servers"]["github"]["command"] == "sh"
    rows = json.loads(prsm_process("doctor", "--json").out)
    found = [
        row["message"] for row in rows if (row["check"], row["status"]) == ("config", "warning")
    ]
    for text, row in zip(sorted(told), sorted(found), strict=True):
        assert row.startswith(text)
        assert shown.err.count(f"prsm: note: {text}") == 1


@pytest.mark.requirement("E43")
def test_a_file_for_events_can_be_set_in_the_configuration(
    site, configure, prsm_process, tmp_path, monkeypatch
):
    configure(f"sinks: {{jsonl: {{path: {tmp_path}/a.jsonl}}}}\n")
    done = prsm_process("run", "say hello", "--json")
    assert (tmp_path / "a.jsonl").read_text() == done.out
    monkeypatch.setenv("PRSM_JSONL", str(tmp_path / "b.jsonl"))
    assert prsm_process("demo", "--json").out.startswith((tmp_path / "b.jsonl").read_text()[:100])
    assert (tmp_path / "b.jsonl").read_text().count("run_finished") == 1
