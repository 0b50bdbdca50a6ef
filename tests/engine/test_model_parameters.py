"""The parameters of a model: from the configuration to its provider, or told to be ignored."""

from __future__ import annotations

from prsm_core.config import Settings
from prsm_core.engine.turns.context import ModelParameters, model_parameters
from prsm_core.interfaces.provider import ProviderCapabilities, ProviderSpec
from tests.engine.harness import ScriptedProvider, failed

TERSE = {
    "provider": "script",
    "model_id": "m-1",
    "reasoning_effort": "low",
    "max_response_tokens": 500,
    "temperature": 0.25,
}
PLAIN = {"provider": "script", "model_id": "m-2"}
MODELS = {"models": {"terse": TERSE, "plain": PLAIN}}
BOTH = ProviderCapabilities(
    enforcement="pre_tool", parameters=frozenset({"max_response_tokens", "temperature"})
)


def notices(team):
    told = team.ledger.events("notice")
    return [notice["text"] for notice in told if notice["level"] == "warning"]


async def test_provider_model_thinking_length_and_temperature_reach_the_provider(opened):
    async def master(agent):
        await agent.spawn(name="a", model="terse")
        await agent.spawn(name="b", model="script/m-1")
        await agent.spawn(name="c", model="plain")
        await agent.collect(3)
        await agent.complete()

    async with opened(settings=MODELS, capabilities=BOTH) as team:
        await team.run(master=master)
        contexts, requests = team.provider.contexts, team.provider.requests
        assert notices(team) == []
    [a], [b], [c] = contexts["a"], contexts["b"], contexts["c"]
    assert (a.provider, a.model, a.thinking_config) == ("script", "m-1", {"effort": "low"})
    assert (b.provider, b.model, b.thinking_config) == ("script", "m-1", None)
    assert (c.provider, c.model, c.thinking_config) == ("script", "m-2", None)
    for name, wanted in (("a", (500, 0.25)), ("b", (500, 0.25)), ("c", (None, None))):
        [context], [request] = contexts[name], requests[name]
        assert (context.max_response_tokens, context.temperature) == wanted
        assert (request.max_response_tokens, request.temperature) == wanted


async def test_a_model_that_takes_over_has_its_own_parameters(opened):
    async def master(agent):
        if agent.context.model != "m-1":
            raise failed("gone")
        await agent.complete()

    settings = {**MODELS, "defaults": {"fallbacks": ["terse"], "model": "plain"}}
    async with opened(settings=settings, capabilities=BOTH) as team:
        await team.run(master=master)
        first, last = team.provider.contexts["master"]
    assert (first.model, first.max_response_tokens) == ("m-2", None)
    assert (last.model, last.max_response_tokens, last.temperature) == ("m-1", 500, 0.25)


async def test_what_a_provider_has_no_switch_for_is_told_once_before_the_run(opened):
    some = ProviderCapabilities(
        enforcement="pre_tool", parameters=frozenset({"max_response_tokens"})
    )

    async def master(agent):
        await agent.spawn(model="terse")
        await agent.spawn(model="terse")
        await agent.collect(2)
        await agent.complete()

    async with opened(settings=MODELS, capabilities=some) as team:
        await team.run(master=master)
        assert notices(team) == [
            "provider script has no switch for models.terse.temperature: what is set there is "
            "ignored"
        ]
        assert team.ledger.events()[1]["type"] == "notice"


async def test_of_a_provider_that_only_an_agent_names_it_is_told_before_its_first_turn(opened):
    class Other(ScriptedProvider):
        def spec(self):
            own = super().spec()
            return ProviderSpec(name="other", summary=own.summary, factory=own.factory)

    other = Other()
    alias = {"provider": "other", "model_id": "m", "max_response_tokens": 5}
    settings = {
        "models": {"odd": alias},
        "defaults": {"provider": "script", "peer_model": "script/m"},
    }

    async def master(agent):
        await agent.spawn(model="other/m", wait=True)
        await agent.complete()

    async with opened(settings=settings, others=(other.spec(),)) as team:
        await team.run(master=master)
        [notice] = team.ledger.events("notice", agent="w1")
    assert notice["text"].startswith("provider other has no switch for models.odd.max_response_tok")


def test_aliases_of_one_model_add_up_and_those_of_others_do_not_count():
    settings = Settings.of(
        {
            "models": {
                "a": {"provider": "p", "model_id": "m", "temperature": 0},
                "b": {"provider": "p", "model_id": "m", "max_response_tokens": 9},
                "c": {"provider": "q", "model_id": "m", "temperature": 1},
            }
        }
    )
    assert model_parameters("p", "m", settings) == ModelParameters(9, 0)
    assert model_parameters("q", "m", settings) == ModelParameters(None, 1)
    assert model_parameters("q", "n", settings) == ModelParameters()
