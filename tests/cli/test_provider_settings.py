"""Sections of providers, checked by the plugin's own model, from the file to the factory."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import pytest

from prsm_core.interfaces.provider import ProviderSpec
from prsm_core.plugins import PluginManager
from tests.site_folder import Site

MODEL = '''
from typing import Annotated
from msgspec import Meta, Struct
class Mine(Struct):
    """What is mine.

    Attributes:
        region: Where
            it is.
    """
    region: str = "eu"
    speed: int = 1
    pin: Annotated[str, Meta(extra_json_schema={"writeOnly": True})] | None = None
    models: tuple[str, ...] = ()
    env: dict[str, str] = {}

    def __post_init__(self):
        if self.speed > 9:
            raise ValueError("must be below 10", "speed")
'''
PLUGIN = """
from pathlib import Path
from echo_plugin import EchoProvider
from prsm_core import ProviderSpec, hookimpl

class Told(EchoProvider):
    def __init__(self, settings, services):
        super().__init__(settings, services)
        with Path(f"told-{services.state_dir.name}").open("w") as file:
            file.write(repr(sorted(settings.items())))

@hookimpl
def prsm_providers():
    yield ProviderSpec(name="mine", summary="", factory=Told, settings="mine_model:Mine")
    yield ProviderSpec(name="old", summary="", factory=Told)
    yield ProviderSpec(name="torn", summary="", factory=Told, settings="mine_model:NoSuch")
"""


@pytest.fixture(autouse=True)
def mine(tmp_path, monkeypatch):
    """Install a plugin with three providers; only the first has a model that there is."""
    site = Site(tmp_path / "site")
    site.folder.mkdir()
    shutil.copy(Path(__file__).with_name("echo_plugin.py"), site.folder)
    (site.folder / "mine_model.py").write_text(MODEL)
    site.add("mine", PLUGIN)
    monkeypatch.setenv("PYTHONPATH", str(site.folder))
    monkeypatch.setenv("PRSM_PLUGINS", "mine")


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
@pytest.mark.parametrize(
    ("section", "told"),
    [
        ("regin: us", "3: providers.{name}.regin is not a setting; did you mean region?"),
        ("speed: [1]", "3: providers.{name}.speed must be a whole number"),
        ("speed: 12", "3: providers.{name}.speed must be below 10"),
        ("pin: 5", "3: providers.{name}.pin must be text"),
        ("base_url: https://x.test", "3: providers.{name}.base_url is not a setting"),
    ],
)
@pytest.mark.parametrize("name", ["mine", "other"])
def test_a_mistake_is_told_with_file_and_line_under_the_name_of_the_section(
    configure, prsm_process, name, section, told
):
    """Also where the section is of another name, and says by `kind` which provider it is of."""
    kind = "" if name == "mine" else "\n    kind: mine"
    path = configure(f"providers:\n  {name}:\n    {section}{kind}\n")
    for argv in (("config", "show"), ("run", "say hello", "--provider", name)):
        done = prsm_process(*argv)
        assert (done.code, done.out) == (2, "")
        assert f"{path}:{told.format(name=name)}" in done.err


@pytest.mark.requirement("E43")
def test_what_is_right_reaches_the_factory_as_it_was_written(configure, prsm_process, monkeypatch):
    configure(
        "providers:\n  mine: {region: us, models: [m1], profiles: [{name: a, env: {K: V}}]}\n"
        "  other: {kind: mine, speed: 3}\n"
    )
    monkeypatch.setenv("V", "of the login")
    done = prsm_process("run", "say hello", "--provider", "mine")
    assert done.code == 0, done.err
    said = [("env", {"K": "of the login"}), ("models", ["m1"]), ("region", "us")]
    assert Path("told-mine@0").read_text() == str(said)
    done = prsm_process("run", "say hello", "--provider", "other")
    assert (done.code, Path("told-other").read_text()) == (0, "[('speed', 3)]"), done.err


def test_a_provider_without_a_model_takes_whatever_is_set(configure, prsm_process):
    configure("providers: {old: {anything: 1}}\n")
    done = prsm_process("run", "say hello", "--provider", "old")
    assert (done.code, Path("told-old").read_text()) == (0, "[('anything', 1)]"), done.err


def test_a_model_that_cannot_be_loaded_is_told_and_the_section_not_checked(configure, prsm_process):
    path = configure("providers: {torn: {anything: 1}}\n")
    done = prsm_process("run", "say hello", "--provider", "torn")
    assert done.code == 0
    assert f"{path}:1: providers.torn is not checked: plugin mine" in done.err
    found = json.loads(prsm_process("doctor", "--json").out)
    assert any("providers.torn is not checked" in row["message"] for row in found)


def test_what_the_model_calls_secret_is_hidden(configure, prsm_process):
    configure("providers: {mine: {pin: hunter-hunter-2}}\n")
    shown = prsm_process("config", "show")
    assert (shown.code, "hunter" in shown.out) == (0, False)


@pytest.mark.requirement("E43")
def test_the_schema_has_what_each_provider_takes(prsm_process):
    schema = json.loads(prsm_process("config", "schema").out)
    validator = jsonschema.Draft202012Validator(schema)
    entries = schema["properties"]["providers"]["properties"]
    assert list(entries) == ["mine"]
    assert entries["mine"]["properties"]["region"]["description"] == "Where it is."
    for right in ({"region": "us", "kind": "mine"}, {"profiles": [{"name": "a", "home": "/x"}]}):
        assert validator.is_valid({"providers": {"mine": right}})
    assert not validator.is_valid({"providers": {"mine": {"regin": "us"}}})
    assert validator.is_valid({"providers": {"old": {"anything": 1}}})


# Where each shipped provider has a word of its own, and a value that is wrong.
SHIPPED = {
    "acp": ("auth_method: []", "auth_method is wrong: a text is needed"),
    "alibaba": ("region: mars", "region is wrong: one of intl, us, cn is needed"),
    "claude": ("bearer: 1", "bearer is wrong: true or false is needed"),
    "codex": ("backend: exe", "backend is wrong: one of app-server, exec is needed"),
    "gemini": ("backend: tcp", "backend is wrong: one of acp, headless, auto is needed"),
    "minimax": ("plan: gold", "plan is wrong: one of payg, m-plan is needed"),
}


@pytest.fixture
def shipped(monkeypatch):
    """All plugins of this repository that are installed; skips where one is not."""
    missing = SHIPPED.keys() - PluginManager.load(environ={}).collect(ProviderSpec).keys()
    if missing:
        pytest.skip(f"not installed: {', '.join(sorted(missing))}")
    monkeypatch.delenv("PRSM_PLUGINS")


@pytest.mark.requirement("E43")
@pytest.mark.usefixtures("shipped")
def test_every_shipped_provider_checks_its_section(configure, prsm_process):
    sections = "".join(f"  {name}:\n    {wrong}\n" for name, (wrong, _) in SHIPPED.items())
    path = configure(f"providers:\n{sections}")
    done = prsm_process("config", "show")
    assert done.code == 2
    for number, (name, (_, told)) in enumerate(SHIPPED.items()):
        assert f"{path}:{3 + 2 * number}: providers.{name}.{told}\n" in done.err


@pytest.mark.requirement("E43")
@pytest.mark.usefixtures("shipped")
def test_every_key_of_a_shipped_provider_is_described(prsm_process):
    schema = json.loads(prsm_process("config", "schema").out)
    entries = schema["properties"]["providers"]["properties"]
    assert SHIPPED.keys() <= entries.keys()
    for name in SHIPPED:
        for key, value in entries[name]["properties"].items():
            assert value["description"], (name, key)


@pytest.mark.usefixtures("shipped")
def test_values_that_do_not_go_together_are_told_at_their_section(configure, prsm_process):
    path = configure(
        "providers:\n  fast:\n    kind: codex\n    backend: exec\n    enforcement: approval\n"
    )
    done = prsm_process("config", "show")
    assert done.code == 2
    assert f"{path}:2: providers.fast is wrong: enforcement: `codex exec` cannot ask" in done.err
