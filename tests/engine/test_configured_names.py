"""Names of models and providers in the settings: what is wrong with them is told at the start."""

from __future__ import annotations

import asyncio

import pytest
from prsm_testing.doubles import until
from prsm_testing.fake_clock import FakeClock

from prsm_core.engine.providers.listings import SHOWN
from prsm_core.interfaces.provider import ProviderStatus
from tests.engine.harness import complete
from tests.engine.test_team import Vendor, specs

CRITIC = {"system_prompt": "You judge.", "model": "codex/gpt-mimi"}


async def told_meanwhile(opened, settings, *vendors, model=None):
    """Return the notices of a run whose master goes on until providers have been asked."""

    async def master(agent):
        await until(lambda: team.engine._starting._checking)
        await asyncio.wait({team.engine._starting._checking})
        await agent.complete()

    async with opened(settings=settings, check=False, **specs(*vendors)) as team:
        await team.run(options={"provider": "script", "master_model": model}, master=master)
        notices = team.ledger.events("notice")
        assert {event["agent"] for event in notices} <= {team["master"].agent_id, "master"}
        return [(event["level"], event["text"]) for event in notices]


WRONG_MODEL = ("provider codex has no model 'gpt-mimi'", "codex/gpt-mini")
FALLBACKS = {"defaults": {"fallbacks": ["codex", "codex/gpt-mimi"]}}


@pytest.mark.requirement("E64")
@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (FALLBACKS, "defaults.fallbacks[1]"),
        ({"defaults": {"peer_model": "codex/gpt-mimi"}}, "defaults.peer_model"),
        ({"experts": {"critic": CRITIC}}, "experts.critic.model"),
        ({"models": {"quick": {"provider": "codex", "model_id": "gpt-mimi"}}}, "models.quick"),
        ({"defaults": {"master_model": "codex/gpt-mimi"}}, "defaults.master_model"),
        ({"defaults": {"provider": "codex", "model": "gpt-mimi"}}, "defaults.model"),
    ],
)
async def test_a_model_that_a_provider_does_not_have_is_told_once_it_has_listed_them(
    opened, settings, key
):
    """Also the model of a run that names none, where this run names another one."""
    [(level, text)] = await told_meanwhile(opened, settings, codex(), model="script/any")
    assert level == "warning"
    assert text.startswith(f"{key}: ")
    assert all(words in text for words in WRONG_MODEL)


@pytest.mark.requirement("E64")
@pytest.mark.parametrize(
    ("settings", "key", "what", "nearest"),
    [
        (
            {"defaults": {"peer_models": ["script", "codx"]}},
            "defaults.peer_models[1]",
            "there is no model 'codx'",
            "codex",
        ),
        (
            {"models": {"quick": {"provider": "codx", "model_id": "gpt-mini"}}},
            "models.quick",
            "needs provider 'codx', which there is not",
            "did you mean codex?",
        ),
        (
            {"model_registry": {"gpt-mini": {"provider": "codx"}}},
            "model_registry.gpt-mini.provider",
            "provider 'codx' is not installed",
            "did you mean codex?",
        ),
        (
            {"defaults": {"provider": "scrip"}},
            "defaults.provider",
            "provider 'scrip' is not installed",
            "did you mean script?",
        ),
    ],
)
async def test_a_name_that_no_provider_need_be_asked_about_is_told_before_the_first_turn(
    opened, settings, key, what, nearest
):
    vendor = codex()
    async with opened(settings=settings, check=False, **specs(vendor)) as team:
        options = {"provider": "script", "master_model": "script/any"}
        await team.run(options=options, master=complete)
        kinds = [event["type"] for event in team.ledger.events()]
        [notice] = team.ledger.events("notice")
        assert kinds.index("notice") < kinds.index("turn_started")
    assert notice["level"] == "warning"
    assert notice["text"].startswith(f"{key}: ")
    assert what in notice["text"]
    assert nearest in notice["text"]
    assert (vendor.probed, vendor.listed) == (0, 0)


def codex(**options):
    return Vendor("codex", "gpt-mini", "gpt-large", knows=("gpt-mini-2026",), **options)


async def test_of_right_names_nothing_is_told_and_each_provider_is_asked_once(opened):
    settings = {
        "defaults": {
            "fallbacks": ["codex/gpt-mini", "codex", "quick"],
            "peer_models": ["codex/gpt-mini-2026", "codex/gpt-large", "script", "codex/mine"],
        },
        "experts": {"critic": {"system_prompt": "You judge.", "model": "codex/gpt-large"}},
        "models": {"quick": {"provider": "codex", "model_id": "gpt-mini"}},
        "model_registry": {"mine": {"provider": "codex"}},
    }
    vendor = codex()
    assert await told_meanwhile(opened, settings, vendor) == []
    assert vendor.listed == 1


@pytest.mark.parametrize(
    ("vendor", "why"),
    [
        (Vendor("mute"), "it lists none"),
        (Vendor("mute", fails=OSError("it is broken")), "it is broken"),
        (Vendor("mute", status=ProviderStatus(available=False)), "it cannot be used now"),
    ],
)
async def test_what_cannot_be_known_is_told_to_be_unknown(opened, vendor, why):
    settings = {"defaults": {"fallbacks": ["mute/anything"]}}
    [(level, text)] = await told_meanwhile(opened, settings, vendor)
    assert level == "info"
    assert text.startswith(
        "defaults.fallbacks[0]: whether provider mute has a model 'anything' is not known: "
    )
    assert why in text


@pytest.mark.requirement("U37")
async def test_neither_a_look_nor_a_list_that_does_not_come_delays_a_run(opened):
    clock = FakeClock()
    settings = {"defaults": {"fallbacks": ["slow/big", "slow/small"]}}
    slow = Vendor("slow", hangs=True)
    async with opened(settings=settings, check=False, clock=clock, **specs(slow)) as team:
        await team.run(options={"provider": "script"}, master=complete)
        assert team.ledger.events("notice") == []
    assert clock.now() == pytest.approx(0, abs=0.1)


async def test_of_many_wrong_names_some_are_told_and_how_the_others_are_seen(opened):
    chain = [f"codex/no-{number}" for number in range(SHOWN + 3)]
    told = await told_meanwhile(opened, {"defaults": {"fallbacks": chain}}, codex())
    assert len(told) == SHOWN + 1
    assert told[-1] == (
        "warning",
        "3 more names in the settings are none: `prsm doctor` tells them",
    )
