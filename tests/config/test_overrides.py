"""Variables, --set and flags name the same settings as the files do."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins

from prsm_core.config import Settings
from prsm_core.config.loader import parse_key
from prsm_core.config.values import Section
from prsm_core.domain.structs import read
from prsm_core.errors import ConfigError

SAMPLES: dict[str, dict[str, object]] = {
    "engine": {
        "master": "solo",
        "max_agent_depth": 3,
        "max_concurrent_agents": 3,
        "max_agents_per_run": 3,
        "max_resident_processes": 3,
        "agent_timeout_seconds": 1.5,
        "tool_timeout_seconds": 1.5,
        "idle_timeout_seconds": 1.5,
        "open_timeout_seconds": 3.5,
        "human_timeout_seconds": 1.5,
        "retry_attempts": 0,
        "gate_refusals": 3,
        "limits": "wait",
    },
    "context": {
        "compaction": "overflow",
        "references": False,
        "skills": False,
        "fill": 0.5,
        "keep": 0.5,
        "summary_model": "m",
    },
    "sessions": {"auto_name": "model", "name_model": "m"},
    "notify": {
        "desktop": "true",
        "command": "[ring, --loud]",
        "webhook": "http://127.0.0.1/hook",
        "about": "[ended]",
    },
    "stuck": {
        "enabled": "false",
        "repeats": 5,
        "rounds": 5,
        "messages": 0,
        "texts": 5,
        "polls": 5,
    },
    "defaults": {
        "model": "m",
        "cwd": "/x",
        "provider": "p",
        "peer_model": "m",
        "peer_models": "[a, b]",
        "master_model": "m",
        "fallbacks": "[a, b]",
        "mode": "plan",
    },
    "sandbox": {"executor": "own", "mode": "require", "network": "true", "writable": "[a]"},
    "box": {
        "agents": "true",
        "memory_mib": 64,
        "cpus": 1.5,
        "pids": 100,
        "network": "false",
        "mounts": {"/a": "/b"},
        "writable": "[a]",
    },
    "workspace": {
        "snapshots": "off",
        "worktrees": "writers",
        "worktree_copy": [".env"],
        "worktree_setup": "npm ci",
        "worktree_setup_seconds": 600.0,
        "keep_snapshots": 3,
        "keep_days": 1.5,
        "keep_mib": 100,
        "files": "own",
    },
    "plugins": {"disabled": "[a]"},
    "permissions": {
        "allow": "[make]",
        "ask": "[make]",
        "deny": "[[git, push]]",
        "tools": "{WebFetch: deny}",
        "trusted": "[a]",
        "required": "[a]",
        "command_policy": "own",
        "edits": "ask",
        "require": "approval",
    },
    "budgets": {
        "tokens": 5,
        "usd": 0.5,
        "turns": 5,
        "spawns": 5,
        "let_turns_finish": "true",
        "prices": "{codex: {input: 1.0, output: 5.0}}",
    },
    "gates": {"tests": "{command: make test, roles: [worker]}"},
    "models": {"fast": "{provider: p, model_id: m}"},
    "providers": {"codex": "{base_url: 'http://x'}"},
    "experts": {"e": "{system_prompt: s, role: worker, worktree: true}"},
    "mcp_servers": {"s": "{command: c}"},
    "sinks": {"jsonl": "{path: /x}"},
    "checks": {"guard": "{a: 1}"},
    "scorers": {"fit": "{a: 1}"},
    "frontends": {"tui": "{a: 1}"},
    "tools": {"words": "{a: 1}"},
    "model_registry": {"m": "{tier: fast}"},
}
KEYS = [(section, key, value) for section, keys in SAMPLES.items() for key, value in keys.items()]


SAMPLES["pass_env"] = {}  # a list, with tests of its own


def test_the_samples_cover_every_setting():
    for name in Settings.__struct_fields__:
        section = getattr(Settings(), name)
        assert name in SAMPLES
        assert not isinstance(section, Section) or set(section.__struct_fields__) == set(
            SAMPLES[name]
        )


@pytest.mark.parametrize(("section", "key", "value"), KEYS)
def test_settings_are_shown_whatever_is_set(place, section, key, value):
    settings = place.load(sets=[f"{section}.{key}={value}"]).settings
    assert json.loads(json.dumps(settings.as_json()))[section]


def test_a_default_of_a_number_with_a_fraction_is_one():
    """JSON spells 7200 and 7200.0 differently: what is shown does not depend on who set it."""
    shown = Settings().as_json()
    assert json.dumps(shown) == json.dumps(to_builtins(read(Settings, shown)))


@pytest.mark.requirement("U11")
@pytest.mark.parametrize(("section", "key", "value"), KEYS)
def test_a_setting_can_be_given_by_file_variable_and_option(place, section, key, value):
    by_option = place.load(sets=[f"{section}.{key}={value}"]).settings
    place.environ[f"PRSM__{section}__{key}".upper()] = str(value)
    by_variable = place.load().settings
    del place.environ[f"PRSM__{section}__{key}".upper()]
    place.user(f"{section}:\n  {key}: {value}\n")
    by_file = place.load().settings
    assert by_file == by_variable == by_option
    assert (by_file != Settings()) == (value != "default")


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        (
            "PRSM__ENGINE__MAX_AGENT_DEPT",
            "3",
            "engine.max_agent_dept is not a setting; did you mean max_agent_depth?",
        ),
        ("PRSM__ENGINE__MAX_AGENT_DEPTH", "deep", "engine.max_agent_depth must be a whole number"),
        ("PRSM__ENGINE", "[", "expected the node content"),
        ("PRSM__ENGINE__", "1", "is written PRSM__SECTION__KEY"),
        ("PRSM__", "1", "is written PRSM__SECTION__KEY"),
        ("PRSM__NOTHING", "1", "nothing is not a setting"),
        ("PRSM__PERMISSIONS__TOOLS__BASH", "deny", "permissions.tools.bash is written Bash"),
    ],
)
def test_a_wrong_variable_is_told_by_its_name(place, variable, value, message):
    place.environ[variable] = value
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert caught.value.message.startswith(f"{variable}: ")
    assert message in caught.value.message


def test_a_variable_finds_names_that_it_cannot_spell(place):
    place.user("models: {fast-one: {provider: p, model_id: m}, Big: {provider: p, model_id: m}}")
    place.environ["PRSM__MODELS__FAST_ONE__MODEL_ID"] = "n"
    place.environ["PRSM__MODELS__BIG__MODEL_ID"] = "n"
    place.environ["PRSM__PERMISSIONS__TOOLS__Bash"] = "deny"
    settings = place.load().settings
    assert {name: model.model_id for name, model in settings.models.items()} == {
        "fast-one": "n",
        "Big": "n",
    }
    assert settings.permissions.tools == {"Bash": "deny"}


def test_a_more_specific_variable_wins(place):
    place.environ["PRSM__ENGINE__MAX_AGENT_DEPTH"] = "4"
    place.environ["PRSM__ENGINE"] = "{max_agent_depth: 3, retry_attempts: 1}"
    engine = place.load().settings.engine
    assert (engine.max_agent_depth, engine.retry_attempts) == (4, 1)


@pytest.mark.parametrize("text", ["engine", "=3", "engine..x=3", "engine.=3", '"engine=3', ""])
def test_a_malformed_option_is_told(place, text):
    with pytest.raises(ConfigError, match=r"^--set .*: is written key\.path=value$"):
        place.load(sets=[text])


def test_a_wrong_option_is_told_by_its_key_and_not_its_value(place):
    with pytest.raises(ConfigError) as caught:
        place.load(sets=["providers.codex.api_key_env=sk-secret!"])
    assert caught.value.message == (
        "--set providers.codex.api_key_env: providers.codex.api_key_env "
        "must be the name of an environment variable, never its value"
    )


def test_a_key_with_dots_stands_in_quotes(place):
    loaded = place.load(sets=['model_registry."gpt-5.1".cost_factor=2', "defaults.model='a=b'"])
    assert loaded.settings.model_registry["gpt-5.1"].cost_factor == 2
    assert loaded.settings.defaults.model == "a=b"


@given(st.lists(st.text(st.characters(exclude_characters='"'), min_size=1), min_size=1))
def test_any_key_path_can_be_written_in_quotes(keys):
    assert parse_key(".".join(f'"{key}"' for key in keys)) == tuple(keys)
