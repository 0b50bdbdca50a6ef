"""What agents answer to the first words, and what they are told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from prsm_acp import handshake
from prsm_acp.config import AcpConfig
from prsm_acp.errors import AUTH_REQUIRED, AcpError
from prsm_acp.handshake import Greeting, Opened
from prsm_acp.manifest import ModelChoice
from prsm_acp.manifests import find_manifest

from plugins.prsm_acp.tests.fake_manifest import MANIFEST
from prsm_core.domain.models import ModelInfo
from prsm_core.domain.tools import McpServer
from prsm_core.errors import ModelNotAvailableError, ProviderNotAvailableError

GEMINI = {
    "modes": {
        "availableModes": [{"id": "default", "name": "Default"}, {"id": "yolo", "name": "YOLO"}],
        "currentModeId": "default",
    },
    "models": {
        "availableModels": [
            {"modelId": "auto", "name": "Auto"},
            {"modelId": "gemini-2.5-pro", "name": "gemini-2.5-pro"},
        ],
        "currentModelId": "auto",
    },
}
MODEL_OPTION = {
    "id": "model",
    "category": "model",
    "options": [
        {"group": "a", "name": "A", "options": [{"value": "sonnet", "name": "Sonnet"}]},
        {"value": "opus", "name": "Opus"},
    ],
}
BY_MODELS = replace(MANIFEST, model=ModelChoice.MODELS)


class Recorder:
    """A connection that keeps what is asked and answers as told."""

    def __init__(self, **answers: Any) -> None:
        self.asked: list[tuple[str, Any]] = []
        self._answers = answers

    async def request(self, method, params, *, timeout_s=None):
        self.asked.append((method, params))
        answer = self._answers.get(method.replace("/", "_"), {})
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_models_are_read_from_where_the_agent_lists_them():
    opened = Opened.of("s", GEMINI, MANIFEST)
    assert (opened.mode, opened.modes) == ("default", ("default", "yolo"))
    assert opened.models == (
        ModelInfo(model_id="auto", display_name="Auto"),
        ModelInfo(model_id="gemini-2.5-pro", display_name="gemini-2.5-pro"),
    )
    assert opened.model_option is None
    claude = Opened.of("s", {"configOptions": [{"id": "mode"}, MODEL_OPTION]}, MANIFEST)
    assert claude.model_option == "model"
    assert [model.model_id for model in claude.models] == ["sonnet", "opus"]


def test_models_of_the_current_login_are_named_as_the_agent_takes_them():
    told = {
        "currentModelId": "$runtime|anthropic|claude-x(anthropic)",
        "availableModels": [
            {"modelId": "coder-model(qwen-oauth)", "name": "coder-model"},
            {"modelId": "$runtime|anthropic|claude-x(anthropic)", "name": "claude-x"},
            {"modelId": "odd"},
        ],
    }
    qwen = find_manifest("qwen")
    opened = Opened.of("s", {"models": told}, qwen)
    assert [model.model_id for model in opened.models] == ["claude-x"]
    unknown = Opened.of("s", {"models": {**told, "currentModelId": None}}, qwen)
    assert [model.model_id for model in unknown.models] == ["coder-model", "claude-x"]


@pytest.mark.parametrize(
    "reply",
    [{}, {"modes": 5, "models": [], "configOptions": {}}, {"modes": {"availableModes": [1]}}],
)
def test_an_agent_that_lists_nothing_offers_nothing(reply):
    opened = Opened.of("s", reply, MANIFEST)
    assert (opened.modes, opened.models, opened.model_option) == ((), (), None)


async def test_a_model_is_chosen_in_the_way_that_the_manifest_names():
    asked: Any = Recorder()
    listed = Opened.of("s", GEMINI, MANIFEST)
    await handshake.set_model(asked, BY_MODELS, listed, "gemini-2.5-pro")
    assert asked.asked == [("session/set_model", {"sessionId": "s", "modelId": "gemini-2.5-pro"})]
    optional = Opened.of("s", {"configOptions": [MODEL_OPTION]}, MANIFEST)
    await handshake.set_model(asked, MANIFEST, optional, "opus")
    assert asked.asked[-1] == (
        "session/set_config_option",
        {"sessionId": "s", "configId": "model", "value": "opus"},
    )
    await handshake.set_model(asked, MANIFEST, optional, "default")
    await handshake.set_model(asked, find_manifest("gemini"), listed, "gemini-2.5-pro")
    assert len(asked.asked) == 2


async def test_a_model_for_an_agent_that_lets_nobody_choose_is_an_error():
    asked: Any = Recorder()
    with pytest.raises(ModelNotAvailableError, match="goose lets nobody choose its model"):
        await handshake.set_model(
            asked, find_manifest("goose"), Opened.of("s", {}, MANIFEST), "some-model"
        )


async def test_a_model_that_the_agent_refuses_says_why():
    refusing: Any = Recorder(session_set_model=AcpError("not on this account"))
    with pytest.raises(ModelNotAvailableError, match="not on this account"):
        await handshake.set_model(
            refusing, BY_MODELS, Opened.of("s", GEMINI, MANIFEST), "gemini-2.5-pro"
        )


async def test_a_configured_login_is_made_after_the_greeting():
    asked: Any = Recorder(initialize={"protocolVersion": 1})
    await handshake.greet(asked, AcpConfig(auth_method="gateway"), MANIFEST)
    (hello, said), login = asked.asked
    assert (hello, login) == ("initialize", ("authenticate", {"methodId": "gateway"}))
    assert said["clientCapabilities"] == {
        "fs": {"readTextFile": True, "writeTextFile": True},
        "terminal": False,
    }


async def test_a_login_that_fails_is_told():
    asked: Any = Recorder(
        initialize={"protocolVersion": 1}, authenticate=AcpError("no such method")
    )
    with pytest.raises(ProviderNotAvailableError, match="did not start: no such method"):
        await handshake.greet(asked, AcpConfig(auth_method="x"), MANIFEST)


async def test_a_session_that_needs_a_login_says_so_in_its_code():
    asked: Any = Recorder(initialize=AcpError("log in first", number=AUTH_REQUIRED))
    with pytest.raises(ProviderNotAvailableError, match="log in first") as caught:
        await handshake.greet(asked, AcpConfig(), MANIFEST)
    assert caught.value.code == "not_logged_in"


def test_servers_are_told_in_the_words_of_the_protocol():
    servers = {
        "docs": McpServer(command="docs", args=("-v",), env={"A": "1"}),
        "web": McpServer(url="http://x/mcp", headers={"B": "2"}),
    }
    assert handshake.described(servers, Greeting(takes_urls=True), MANIFEST) == [
        {"name": "docs", "command": "docs", "args": ["-v"], "env": [{"name": "A", "value": "1"}]},
        {
            "type": "http",
            "name": "web",
            "url": "http://x/mcp",
            "headers": [{"name": "B", "value": "2"}],
        },
    ]


def test_what_an_agent_can_do_is_read_from_its_greeting():
    told = {"agentCapabilities": {"loadSession": True, "mcpCapabilities": {"http": True}}}
    assert Greeting.of(told) == Greeting(loads=True, takes_urls=True)
    assert Greeting.of({"agentCapabilities": {"loadSession": "yes"}}) == Greeting()
