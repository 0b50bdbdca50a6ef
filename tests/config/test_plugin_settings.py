"""The sections of plugins: each entry is read by the model of whoever it belongs to."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import jsonschema
import pytest
from msgspec import Meta, Struct, field

from prsm_core import ConfigError, PluginError
from prsm_core.config.effects import effects_of
from prsm_core.config.plugin_settings import PluginSection, full_schema
from prsm_core.config.secrets import known_secrets
from prsm_core.config.snapshot import take_snapshot

Hidden = Annotated[str, Meta(extra_json_schema={"writeOnly": True})]


class Rule(Struct):
    """One rule."""

    branch: str
    verdict: Literal["ask", "deny"] = "deny"


class Guard(Struct):
    """What a guard takes."""

    branches: tuple[str, ...] = ("main",)
    limit: int = 3
    rules: list[Rule] = []
    token: Hidden | None = None
    others: dict[str, list[Hidden]] = {}
    endpoint: str = field(default="", name="address")

    def __post_init__(self):
        if self.limit > 100:
            raise ValueError("must be 100 at most", "limit")
        if self.limit == 13:
            raise RuntimeError("a secret")
        if self.limit == 14:
            raise TypeError("a secret")


class Hook(Struct):
    """What a sink needs."""

    url: str


BROKEN = PluginError("plugin late: cannot import 'no.such:Model'")


def sections(*, must_exist=False):
    checks = {"guard": Guard, "plain": None, "late": BROKEN}
    return {
        "checks": PluginSection(word="permission check", models=checks, must_exist=must_exist),
        "sinks": PluginSection(
            word="event sink", models={"hook": Hook, "raw": None}, takes_any=True
        ),
    }


def load(place, text="", **options):
    path = place.user(text)
    return path, place.load(plugin_sections=sections(**options))


@pytest.mark.requirement("E43")
def test_an_entry_is_read_by_the_model_of_its_plugin(place):
    place.environ["PRSM__CHECKS__GUARD__LIMIT"] = "7"
    _, loaded = load(
        place,
        "checks:\n  guard:\n    branches: [main, next]\n    rules: [{branch: x, verdict: }]\n"
        "    address: a\n"
        "    token:\nsinks:\n  raw: {any: [1]}\n",
    )
    guard = loaded.of_plugins["checks", "guard"]
    assert (guard.branches, guard.limit, guard.rules) == (("main", "next"), 7, [Rule(branch="x")])
    assert (guard.endpoint, guard.token) == ("a", None)
    assert loaded.settings.sinks == {"raw": {"any": [1]}}
    assert ("sinks", "raw") not in loaded.of_plugins


WRONG = {
    "a wrong type": ("limit: many", 3, "checks.guard.limit must be "),
    "a word": ("rules: [{branch: x, verdict: dent}]", 3, "none of the allowed values: ask, deny"),
    "its own rule": ("limit: 101", 3, "checks.guard.limit must be 100 at most"),
    "a misspelt key": ("limmit: 3", 3, "checks.guard.limmit is not a setting; did you mean limit?"),
    "a misspelt key below": (
        "rules: [{branch: x, verdikt: ask}]",
        3,
        "checks.guard.rules[0].verdikt is not a setting; did you mean verdict?",
    ),
    "a missing key": ("rules: [{verdict: ask}]", 3, "checks.guard.rules[0].branch is missing"),
    "a struct that fails": ("limit: 13", 2, "checks.guard: its struct fails: RuntimeError"),
    "one that fails by a type": ("limit: 14", 2, "checks.guard: its struct fails: TypeError"),
}


@pytest.mark.requirement("E43")
@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_with_its_line(place, case):
    text, line, said = WRONG[case]
    path = place.user(f"checks:\n  guard:\n    {text}\n")
    with pytest.raises(ConfigError) as caught:
        place.load(plugin_sections=sections())
    assert caught.value.message.startswith(f"{path}:{line}: ")
    assert said in caught.value.message
    assert "a secret" not in caught.value.message


def test_mistakes_in_all_sections_are_told_at_once(place):
    place.user("checks: {guard: {limit: x}, plain: {a: 1}}\nproviders: {nobody: {}}\n")
    with pytest.raises(ConfigError) as caught:
        place.load(plugin_sections=sections(), known_plugins=["codex"])
    assert "the configuration has 3 mistakes" in caught.value.message
    assert "checks.plain: this permission check takes no settings" in caught.value.message


@pytest.mark.requirement("E43")
def test_an_entry_that_is_nobodys_is_told_with_its_line_and_the_nearest(place):
    path, loaded = load(place, "sinks:\n  hok: {url: x}\nchecks:\n  gaurd: {}\n")
    assert [text.partition("; installed")[0] for text in loaded.mistakes] == [
        f"{path}:4: checks.gaurd has no effect: no active plugin brings that permission check; "
        "did you mean guard?",
        f"{path}:2: sinks.hok has no effect: no active plugin brings that event sink; did you "
        "mean hook?",
    ]
    with pytest.raises(ConfigError, match=r"config\.yaml:4: checks\.gaurd has no effect"):
        load(place, "sinks:\n  hok: {url: x}\nchecks:\n  gaurd: {}\n", must_exist=True)


def test_one_without_an_entry_is_read_from_an_empty_one(place):
    _, loaded = load(place)
    assert loaded.of_plugins["checks", "guard"] == Guard()
    problem = loaded.of_plugins["sinks", "hook"]
    assert isinstance(problem, ConfigError)
    assert problem.message == "sinks.hook.url is missing"
    assert loaded.of_plugins["checks", "late"] is BROKEN


def test_an_entry_that_is_empty_is_a_mistake_where_something_is_needed(place):
    path = place.user("sinks:\n  hook:\n")
    with pytest.raises(ConfigError, match=r"sinks\.hook\.url is missing") as caught:
        place.load(plugin_sections=sections())
    assert caught.value.message.startswith(f"{path}:2: ")


@pytest.mark.requirement("E43")
def test_the_schema_holds_what_plugins_take(place):
    schema = full_schema(sections())
    jsonschema.Draft202012Validator.check_schema(schema)
    fine = {
        "checks": {"guard": {"limit": 1, "rules": [{"branch": "x"}]}},
        "sinks": {"raw": {"a": 1}, "other": {}},
    }
    jsonschema.validate(fine, schema)
    refused: list[Any] = [
        {"checks": {"guard": {"limit": "x"}}},
        {"checks": {"guard": {"limmit": 1}}},
        {"checks": {"guard": {"rules": [{"branch": "x", "verdikt": "ask"}]}}},
        {"checks": {"plain": {"a": 1}}},
        {"sinks": {"hook": {}}},
    ]
    for wrong in refused:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


@pytest.mark.requirement("U19")
def test_what_a_struct_calls_secret_or_a_name_sounds_like_is_known_as_secret(place):
    _, loaded = load(
        place,
        "checks: {guard: {token: from-the-struct, others: {a: [from-below]}}}\n"
        "sinks: {raw: {deep: [{db_password: by-its-name}], key_env: MY_OWN}}\n",
    )
    found = set(known_secrets(loaded.settings, {"MY_OWN": "by-its-variable"}))
    assert {"from-the-struct", "from-below", "by-its-name", "by-its-variable"} <= found


@pytest.mark.parametrize("section", ["sinks", "checks", "scorers", "frontends", "tools"])
def test_a_repository_sets_nothing_of_a_plugin_before_it_is_trusted_and_then_it_was_shown(
    place, section
):
    place.workspace(f"{section}: {{guard: {{limit: 5}}}}\nplugins: {{disabled: [guard]}}\n")
    assert getattr(place.load(trusted=False).settings, section) == {}
    assert getattr(place.load(trusted=True).settings, section) == {"guard": {"limit": 5}}
    shown = {(e.group, e.text) for e in effects_of(take_snapshot(place.paths.workspace))}
    assert shown == {
        ("what plugins are set to, and which stay off", 'plugins.disabled = ["guard"]'),
        ("what plugins are set to, and which stay off", f"{section}.guard.limit = 5"),
    }


def test_a_short_variable_sets_the_file_of_the_jsonl_sink_as_text(place):
    place.user("sinks: {jsonl: {path: a}}\n")
    place.environ["PRSM_JSONL"] = "[b]"
    loaded = place.load()
    assert loaded.settings.sinks == {"jsonl": {"path": "[b]"}}
    assert loaded.sources["sinks.jsonl.path"] == "PRSM_JSONL"
    assert place.load(sets=["sinks.jsonl.path=c"]).settings.sinks == {"jsonl": {"path": "c"}}
    place.environ["PRSM_JSONL"] = ""
    assert place.load().settings.sinks == {"jsonl": {"path": "a"}}
