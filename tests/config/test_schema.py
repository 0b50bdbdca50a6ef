"""The schema describes itself, accepts its own defaults, and agrees with what is loaded."""

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.config import Settings, config_schema, schema
from prsm_core.config.json_schema import described
from prsm_core.config.schema import ProviderSettings
from prsm_core.config.values import Section
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.models import ModelTier
from prsm_core.domain.tools import McpServer

MODELS = [
    model
    for model in (*vars(schema).values(), schema.AuthProfile)
    if isinstance(model, type) and issubclass(model, Section) and model is not Section
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_setting_is_described_and_every_section_is_frozen(model):
    assert model.__doc__
    schema, _ = described(model, "{name}")
    assert all(each["description"] for each in schema["properties"].values())
    assert model.__struct_config__.frozen
    assert model.__struct_config__.forbid_unknown_fields


def test_the_json_schema_is_valid_and_accepts_every_section():
    found = config_schema()
    jsonschema.Draft202012Validator.check_schema(found)
    jsonschema.validate(
        {
            "engine": {"max_agent_depth": 3},
            "providers": {"codex": {"command": "codex app-server", "own": 1}},
            "permissions": {"deny": ["git push", ["rm", "-rf"]], "tools": {"Bash": "ask"}},
            "plugins": {"disabled": ["a"], "github": {"command": "gh-mcp"}},
            "defaults": {"mode": "plan"},
        },
        found,
    )


@pytest.mark.parametrize(
    "value",
    [
        {"engine": {"max_agent_dept": 3}},
        {"engine": {"max_agent_depth": "3"}},
        {"engin": {}},
        {"defaults": {"mode": "bypas"}},
        {"permissions": {"deny": "rm"}},
        {"models": {"fast": {"provider": "p"}}},
    ],
)
def test_the_json_schema_refuses_what_the_loader_refuses(value):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, config_schema())


def test_the_json_schema_offers_the_allowed_words_and_no_generated_titles():
    found = config_schema()
    assert found["$defs"]["PermissionMode"]["enum"] == sorted(PermissionMode)
    assert found["$defs"]["ModelTier"]["enum"] == sorted(ModelTier)
    assert "title" not in found["properties"]["engine"]
    assert found["$defs"]["EngineSettings"]["properties"]["retry_attempts"]["default"] == 5


def test_a_server_is_handed_on_as_the_engine_knows_it():
    settings = Settings.of(
        {"mcp_servers": {"s": {"command": "c", "args": ["-x"], "env": {"A": "b"}, "tags": ["t"]}}}
    )
    expected = McpServer(command="c", args=("-x",), env={"A": "b"})
    assert settings.mcp_servers["s"].to_server() == expected


def test_an_expert_reads_only_unless_it_is_given_more():
    settings = Settings.of({"experts": {"e": {"system_prompt": "s", "name": "Eve"}}})
    expert = settings.expert_profiles()["e"]
    assert (expert.name, expert.tools) == ("Eve", frozenset({"Read", "Glob", "Grep"}))


@given(
    st.dictionaries(
        st.text(min_size=1).filter(lambda key: key not in ProviderSettings.__struct_fields__),
        st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text()),
    )
)
def test_a_providers_own_keys_reach_its_plugin_unchanged(own):
    settings = Settings.of({"providers": {"p": {**own, "base_url": "http://x"}}})
    assert settings.provider_settings("p") == {**own, "base_url": "http://x"}


def test_a_provider_without_a_section_gets_an_empty_one():
    assert Settings().provider_settings("codex") == {}
