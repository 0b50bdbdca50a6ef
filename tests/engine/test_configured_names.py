"""Names of models and providers in the settings: what is wrong with them is told at the start."""

from __future__ import annotations

import pytest

from prsm_core.engine.providers.configured_names import SHOWN, WAIT_SECONDS
from prsm_core.interfaces.provider import ProviderStatus
from prsm_core.testing.fake_clock import FakeClock
from tests.engine.harness import complete
from tests.engine.test_team import Vendor, specs

CRITIC = {"system_prompt": "You judge.", "model": "codex/gpt-mimi"}


async def started(opened, settings, *vendors, clock=None):
    """Run a task to its end; return the notices told before the first turn: (level, text)."""
    options = {} if clock is None else {"clock": clock}
    async with opened(settings=settings, check=False, **options, **specs(*vendors)) as team:
        await team.run(options={"provider": "script"}, master=complete)
        kinds = [event["type"] for event in team.ledger.events()]
        first = kinds.index("turn_started")
        before = [event for event in team.ledger.events()[:first] if event["type"] == "notice"]
        assert len(before) == kinds.count("notice"), "nothing is told later"
        return [(event["level"], event["text"]) for event in before]


@pytest.mark.requirement("E64")
@pytest.mark.parametrize(
    ("settings", "key", "what", "nearest"),
    [
        (
            {"defaults": {"fallbacks": ["codex", "codex/gpt-mimi"]}},
            "defaults.fallbacks[1]",
            "provider codex has no model 'gpt-mimi'",
            "codex/gpt-mini",
        ),
        (
            {"defaults": {"peer_models": ["script", "codx"]}},
            "defaults.peer_models[1]",
            "there is no model 'codx'",
            "codex",
        ),
        (
            {"defaults": {"peer_model": "codex/gpt-mimi"}},
            "defaults.peer_model",
            "provider codex has no model 'gpt-mimi'",
            "codex/gpt-mini",
        ),
        (
            {"experts": {"critic": CRITIC}},
            "experts.critic.model",
            "provider codex has no model 'gpt-mimi'",
            "codex/gpt-mini",
        ),
        (
            {"models": {"quick": {"provider": "codex", "model_id": "gpt-mimi"}}},
            "models.quick",
            "provider codex has no model 'gpt-mimi'",
            "codex/gpt-mini",
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
        (
            {"defaults": {"master_model": "codex/gpt-mimi"}},
            "defaults.master_model",
            "provider codex has no model 'gpt-mimi'",
            "codex/gpt-mini",
        ),
        (
            {"defaults": {"provider": "codex", "model": "gpt-mimi"}},
            "defaults.model",
            "provider codex has no model 'gpt-mimi'",
            "codex/gpt-mini",
        ),
    ],
)
async def test_a_wrong_name_of_any_setting_is_told_before_the_first_turn(
    opened, settings, key, what, nearest
):
    """Also the model of a run that names none, where this run names another one."""
    async with opened(settings=settings, check=False, **specs(codex())) as team:
        options = {"provider": "script", "master_model": "script/any"}
        await team.run(options=options, master=complete)
        kinds = [event["type"] for event in team.ledger.events()]
        [notice] = team.ledger.events("notice")
        assert kinds.index("notice") < kinds.index("turn_started")
    assert notice["level"] == "warning"
    assert notice["text"].startswith(f"{key}: ")
    assert what in notice["text"]
    assert nearest in notice["text"]


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
    assert await started(opened, settings, vendor) == []
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
    [(level, text)] = await started(opened, settings, vendor)
    assert level == "info"
    assert text.startswith(
        "defaults.fallbacks[0]: whether provider mute has a model 'anything' is not known: "
    )
    assert why in text


async def test_a_list_that_does_not_come_delays_no_run_for_long(opened):
    class Slow(Vendor):
        async def probe(self):
            return ProviderStatus(available=True)

    clock = FakeClock()
    settings = {"defaults": {"fallbacks": ["slow/big", "slow/small"]}}
    [(level, text)] = await started(opened, settings, Slow("slow", hangs=True), clock=clock)
    assert level == "info"
    assert "it has not answered yet; and 1 more: `prsm doctor` tells them" in text
    assert clock.now() == pytest.approx(WAIT_SECONDS, abs=1)


async def test_of_many_wrong_names_some_are_told_and_how_the_others_are_seen(opened):
    chain = [f"codex/no-{number}" for number in range(SHOWN + 3)]
    told = await started(opened, {"defaults": {"fallbacks": chain}}, codex())
    assert len(told) == SHOWN + 1
    assert told[-1] == (
        "warning",
        "3 more names in the settings are none: `prsm doctor` tells them",
    )
