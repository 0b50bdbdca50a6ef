"""Other vendors' models, behind one backend or two."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from prsm_codex import CodexConfig, Vendor, VendorProvider, build_vendor, take_choice
from prsm_testing.doubles import RecordingHost, open_services, session_request

from prsm_core.domain.agents import AgentRole
from prsm_core.domain.models import ModelInfo
from prsm_core.errors import ConfigError
from prsm_core.interfaces.provider import Provider, ProviderCapabilities, ProviderStatus

BOTH = Vendor(
    name="acme",
    api_key_env="ACME_KEY",
    models={"big": {"context_window": 1000}, "small": {}},
    responses_url="https://acme.test/v1",
    messages_url="https://acme.test/anthropic",
)
MESSAGES_ONLY = Vendor(
    name="acme", api_key_env="ACME_KEY", models={"big": {}}, responses_url=None, messages_url="m"
)


class Backend(Provider):
    """Keeps what it is asked."""

    def __init__(self, status=None, **capabilities):
        self.capabilities = ProviderCapabilities(**capabilities)
        self.status = status or ProviderStatus(available=True, version="1", gaps=("a",))
        self.requests: list[Any] = []
        self.closed = 0

    @asynccontextmanager
    async def open_session(self, request, host):
        self.requests.append(request)
        yield None

    async def probe(self):
        return self.status

    async def aclose(self):
        self.closed += 1


class Claude(Backend):
    """Stands in for the other backend, and keeps its settings."""

    settings: Any = None

    @classmethod
    def build(cls, settings, services):
        made = cls()
        made.settings = settings
        return made


@pytest.fixture
async def services(tmp_path):
    async with open_services(tmp_path) as made:
        yield made


def built(services, vendor=BOTH, **settings):
    return build_vendor(vendor, settings, services, Claude.build)


def backends(provider):
    return provider._masters, provider._others


def test_masters_run_on_claude_code_and_others_on_codex(services):
    masters, others = backends(built(services))
    assert masters.settings == {
        "api_key_env": "ACME_KEY",
        "base_url": "https://acme.test/anthropic",
        "models": BOTH.models,
    }
    assert others._config == CodexConfig(
        base_url="https://acme.test/v1",
        api_key_env="ACME_KEY",
        lean=True,
        models=(ModelInfo(model_id="big", context_window=1000), ModelInfo(model_id="small")),
    )


@pytest.mark.parametrize("backend", ["codex", "claude"])
def test_one_backend_can_run_them_all(services, backend):
    masters, others = backends(built(services, backend=backend, base_url="http://x"))
    assert masters is others
    assert isinstance(masters, Claude) is (backend == "claude")
    given = masters.settings["base_url"] if backend == "claude" else masters._config.base_url
    assert given == "http://x"


def test_a_plan_without_the_responses_interface_has_claude_code_only(services):
    masters, others = backends(built(services, vendor=MESSAGES_ONLY))
    assert masters is others
    assert isinstance(masters, Claude)
    with pytest.raises(ConfigError, match=r"providers\.acme\.backend"):
        built(services, vendor=MESSAGES_ONLY, backend="codex")


def test_what_concerns_one_backend_stands_under_its_name(services):
    settings = {
        "codex": {"command": "my-codex", "network": True},
        "claude": {"command": "my-claude"},
        "env": {"A": "b"},
        "models": {"other": {}},
        "api_key_env": "MINE",
        "profiles": [{"name": "p"}],
    }
    provider = built(services, **settings)
    masters, others = backends(provider)
    assert masters.settings["command"] == "my-claude"
    assert masters.settings["api_key_env"] == others._config.api_key_env == "MINE"
    assert others._config.command == ("my-codex",)
    assert others._config.network is True
    assert others._config.env == masters.settings["env"] == {"A": "b"}
    assert [model.model_id for model in provider._models] == ["other"]


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"comand": "x"}, "comand"),
        ({"command": "x"}, "command"),
        ({"base_url": "x"}, "base_url"),
        ({"backend": "gemini"}, "backend"),
        ({"codex": "x"}, "codex"),
        ({"codex": {"comand": "x"}}, "comand"),
        ({"models": 3}, "models"),
    ],
)
def test_a_wrong_key_is_an_error_that_names_the_section(services, settings, key):
    with pytest.raises(ConfigError, match=rf"providers\.acme.*{key}"):
        built(services, **settings)


def test_a_choice_is_taken_out_of_the_section():
    settings = {"region": "b", "other": 1}
    assert take_choice(settings, "region", {"a": 1, "b": 2}, default="a", section="s") == 2
    assert settings == {"other": 1}
    assert take_choice(settings, "region", {"a": 1, "b": 2}, default="a", section="s") == 1
    for wrong in ("c", 3, ["a"]):
        with pytest.raises(ConfigError, match=r"providers\.s\.region: one of a, b is needed"):
            take_choice({"region": wrong}, "region", {"a": 1, "b": 2}, default="a", section="s")


async def test_models_that_are_only_named_keep_what_is_known_of_them(services):
    provider = built(services, models=["new", "big"], backend="codex")
    models = {model.model_id: model.context_window for model in await provider.list_models()}
    assert models == {"new": None, "big": 1000}


async def test_a_preset_leaves_room_for_models_that_it_does_not_name(services):
    assert await built(services).knows_model("newest")
    assert not await built(services, models=["big"]).knows_model("newest")


def test_it_promises_what_both_backends_keep():
    one = Backend(enforcement="pre_tool", resume="call", steer=True, shell_reads=False)
    two = Backend(enforcement="approval", resume="native", steer=False, shell_reads=True)
    found = VendorProvider(one, two, ()).capabilities
    assert found == ProviderCapabilities(
        enforcement="approval", resume="native", steer=False, shell_reads=True
    )
    # What is judged before each tool is asked about before each edit, too.
    asked = replace(one.capabilities, asks_edits=True)
    assert VendorProvider(one, one, ()).capabilities == asked


@pytest.mark.parametrize("role", list(AgentRole))
async def test_an_agent_is_run_by_the_backend_of_its_role(tmp_path, role):
    one, two = Backend(), Backend()
    provider = VendorProvider(one, two, [ModelInfo(model_id="big"), ModelInfo(model_id="small")])
    for model in ("default", "small"):
        request = session_request(tmp_path, role=role, model=model)
        async with provider.open_session(request, RecordingHost()):
            pass
    used, unused = (one, two) if role is AgentRole.MASTER else (two, one)
    assert [request.model for request in used.requests] == ["big", "small"]
    assert unused.requests == []
    assert [model.model_id for model in await provider.list_models()] == ["big", "small"]


async def test_it_is_available_when_all_its_backends_are():
    missing = ProviderStatus(available=False, reason="no key")
    one, two = Backend(), Backend(ProviderStatus(available=True, version="2", gaps=("b", "a")))
    status = await VendorProvider(one, two, ()).probe()
    assert (status.available, status.version, status.gaps) == (True, "1, 2", ("a", "b"))
    assert await VendorProvider(Backend(missing), two, ()).probe() is missing
    assert await VendorProvider(one, Backend(missing), ()).probe() is missing
    assert await VendorProvider(one, one, ()).probe() is one.status


async def test_each_backend_is_closed_once():
    one, two = Backend(), Backend()
    await VendorProvider(one, two, ()).aclose()
    await VendorProvider(one, one, ()).aclose()
    assert (one.closed, two.closed) == (2, 1)


def test_the_windows_of_its_models_are_known_without_asking_also_that_of_the_default(services):
    windows = {model.model_id: model.context_window for model in built(services).known_models}
    assert windows == {"big": 1000, "small": None, "default": 1000}


def test_an_address_that_is_none_is_refused_as_the_provider_is_built(services):
    with pytest.raises(ConfigError, match=r"providers\.acme\.base_url: the address of a server"):
        built(services, backend="codex", base_url="not-a-url")
