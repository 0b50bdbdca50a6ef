"""prsm models: what is known, what is new, and what fits a task."""

import json

import pytest

from prsm_core.plugins import plugin_names

VENDORS = """
from prsm_core import ModelInfo, Provider, ProviderSpec, ProviderStatus, hookimpl

class Vendor(Provider):
    def __init__(self, settings, services):
        self.settings = settings

    def open_session(self, request, host):
        raise NotImplementedError

class Works(Vendor):
    async def list_models(self):
        return [
            ModelInfo(model_id="new", display_name="New", context_window=1000,
                      reasoning_efforts=("low", "high")),
            ModelInfo(model_id="big", context_window=5000),
            ModelInfo(model_id="secret", hidden=True),
        ]

class Fails(Vendor):
    async def list_models(self):
        raise OSError("the disk is gone")

class Absent(Vendor):
    async def probe(self):
        return ProviderStatus(available=False, reason="not logged in", hint="log in")

@hookimpl
def prsm_providers():
    for name, factory in (("works", Works), ("fails", Fails), ("absent", Absent)):
        yield ProviderSpec(name=name, summary="", factory=factory)
"""
MEETING = """
import asyncio
from prsm_core import ModelInfo, Provider, ProviderSpec, hookimpl

class Vendor(Provider):
    meeting = None

    def __init__(self, settings, services):
        Vendor.meeting = Vendor.meeting or asyncio.Barrier(2)

    def open_session(self, request, host):
        raise NotImplementedError

    async def list_models(self):
        await Vendor.meeting.wait()
        return [ModelInfo(model_id="m")]

@hookimpl
def prsm_providers():
    for name in ("a", "b"):
        yield ProviderSpec(name=name, summary="", factory=Vendor)
"""
SCORER = """
from prsm_core import ModelScorerSpec, hookimpl

def fails(model, task):
    raise LookupError("no rankings")

def likes(model, task):
    return 1.0 if model.model_id == "small" else 0.0

@hookimpl
def prsm_model_scorers():
    yield ModelScorerSpec(name="broken", summary="", weight=1.0, score=fails)
    yield ModelScorerSpec(name="likes", summary="", weight=50.0, score=likes)
"""
CONFIG = """
models:
  quick: {provider: works, model_id: small}
  odd: {provider: works, model_id: unknown}
model_registry:
  big: {provider: works, tier: frontier, cost_factor: 3, affinities: {coding: 0.9}}
  small: {provider: works, tier: economy, cost_factor: 0.1, max_context: 9}
  good: {provider: fails, tier: strong, speed_factor: 2, affinities: {coding: 0.8}}
  far: {provider: elsewhere, tier: strong}
  vague: {provider: works, max_context: 9}
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a plugin of this name and source; all others of the environment are off."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delenv("PRSM_PLUGINS")
    monkeypatch.setenv("PRSM_DISABLED_PLUGINS", ",".join(sorted(plugin_names())))

    def install(name, source):
        module = f"models_plugin_{name}"
        (site / f"{module}.py").write_text(source)
        info = site / f"dist_{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: dist-{name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[prsm]\n{name} = {module}\n")

    return install


@pytest.fixture
def vendors(install, tmp_path):
    """Install three providers, of which one lists its models, and configure some models."""
    install("vendors", VENDORS)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.yaml").write_text(CONFIG)


def restrict(monkeypatch, *peers):
    monkeypatch.setenv("PRSM__DEFAULTS__PEER_MODELS", json.dumps(peers))


def by_name(rows):
    return {f"{row['provider']}/{row['model']}": row for row in rows}


@pytest.mark.usefixtures("vendors")
def test_list_puts_aliases_registry_and_providers_together(prsm):
    done = prsm("models", "list", "--json")
    assert (done.code, done.err) == (0, "")
    rows = by_name(json.loads(done.out)["models"])
    assert list(rows) == sorted(rows)
    assert {name: row["known_from"] for name, row in rows.items()} == {
        "elsewhere/far": ["registry"],
        "fails/good": ["registry"],
        "works/big": ["registry", "provider"],
        "works/new": ["provider"],
        "works/secret": ["provider"],
        "works/small": ["alias", "registry"],
        "works/unknown": ["alias"],
    }
    assert rows["works/big"] == {
        "provider": "works",
        "model": "big",
        "aliases": [],
        "known_from": ["registry", "provider"],
        "tier": "frontier",
        "cost_factor": 3,
        "speed_factor": 1,
        "affinities": {"coding": 0.9},
        "display_name": None,
        "context_window": 5000,
        "reasoning_efforts": [],
        "hidden": False,
    }
    assert (rows["works/small"]["aliases"], rows["works/small"]["context_window"]) == (["quick"], 9)


@pytest.mark.usefixtures("vendors")
def test_a_provider_that_cannot_list_is_told_and_the_others_are_listed(prsm):
    done = prsm("models", "list")
    assert done.code == 0
    header, *lines = done.out.splitlines()
    assert " ".join(header.split()) == "PROVIDER MODEL ALIASES TIER COST SPEED CONTEXT FROM"
    assert [line.split()[:2] for line in lines] == [
        ["elsewhere", "far"],
        ["fails", "good"],
        ["works", "big"],
        ["works", "new"],
        ["works", "small"],
        ["works", "unknown"],
    ]
    assert done.err.splitlines() == [
        "prsm: note: absent cannot list its models: not logged in",
        "prsm: note: fails cannot list its models: provider fails (dist-vendors 1.0) failed in "
        "list_models: OSError: the disk is gone",
        "prsm: note: model_registry.vague is not ranked: "
        "it has no tier, or its provider is not known",
    ]


@pytest.mark.usefixtures("vendors")
def test_one_provider_alone_is_asked(prsm):
    done = prsm("models", "list", "--provider", "works", "--json")
    told = json.loads(done.out)
    assert {row["provider"] for row in told["models"]} == {"works"}
    assert (done.code, told["problems"]) == (0, [])


@pytest.mark.usefixtures("vendors")
def test_where_nobody_can_list_the_exit_code_is_3_and_the_configuration_is_shown(prsm):
    done = prsm("models", "list", "--provider", "fails", "--json")
    told = json.loads(done.out)
    assert list(by_name(told["models"])) == ["fails/good"]
    assert told["problems"] == [
        {
            "provider": "fails",
            "problem": "provider fails (dist-vendors 1.0) failed in list_models: "
            "OSError: the disk is gone",
        }
    ]
    assert done.code == 3


@pytest.mark.usefixtures("vendors")
def test_a_provider_that_is_not_there_is_a_wrong_usage(prsm):
    done = prsm("models", "list", "--provider", "work")
    assert (done.code, done.out) == (2, "")
    assert "works" in done.err


def test_without_any_provider_or_model_there_is_nothing_and_it_is_said(prsm):
    done = prsm("models", "list")
    assert (done.code, done.out, done.err) == (0, "", "prsm: note: no model is known\n")
    done = prsm("models", "discover")
    assert (done.code, done.out) == (0, "")
    assert "no provider lists a model that the registry does not have" in done.err


@pytest.mark.usefixtures("vendors")
def test_discover_shows_only_what_the_registry_does_not_have(prsm):
    done = prsm("models", "discover", "--json")
    told = json.loads(done.out)
    assert list(by_name(told["models"])) == ["works/new", "works/secret"]
    assert told["models"][0] == {
        "provider": "works",
        "model": "new",
        "display_name": "New",
        "context_window": 1000,
        "reasoning_efforts": ["low", "high"],
        "hidden": False,
    }
    assert [problem["provider"] for problem in told["problems"]] == ["absent", "fails"]
    assert done.code == 0
    done = prsm("models", "discover")
    assert [line.split() for line in done.out.splitlines()] == [
        ["PROVIDER", "MODEL", "NAME", "CONTEXT", "EFFORTS"],
        ["works", "new", "New", "1000", "low", "high"],
    ]


def test_all_providers_are_asked_at_once(prsm, install):
    install("meeting", MEETING)  # each answers only when the other one is asked too
    done = prsm("models", "discover", "--json")
    assert list(by_name(json.loads(done.out)["models"])) == ["a/m", "b/m"]


@pytest.mark.usefixtures("vendors")
def test_rank_orders_the_registry_by_tier_and_score(prsm):
    def names(*args):
        done = prsm("models", "rank", *args, "--json")
        assert (done.code, done.err) == (0, "")
        return [row["model"] for row in json.loads(done.out)["models"]]

    assert names("coding")[0] == "fails/good"
    assert names("--complexity", "complex")[0] == "works/big"
    assert names("coding", "--complexity", "moderate") == [
        "fails/good",
        "elsewhere/far",
        "works/big",
    ]
    assert names("search", "--complexity", "simple")[0] == "works/small"
    done = prsm("models", "rank", "coding", "--complexity", "complex")
    assert done.out.splitlines()[0].split() == ["MODEL", "TIER", "SCORE", "COST", "REASON"]
    assert "frontier fits a complex task; coding 0.9; cost 3, speed 1" in done.out


@pytest.mark.usefixtures("vendors")
def test_the_scorers_of_plugins_count_and_a_broken_one_is_told(prsm, install):
    install("scorer", SCORER)
    done = prsm("models", "rank", "coding")
    assert done.out.splitlines()[1].split()[0] == "works/small"
    told = (
        "prsm: note: model scorer broken (dist-scorer 1.0) is left out: LookupError: no rankings\n"
    )
    assert (done.code, done.err) == (0, told)
    problems = json.loads(prsm("models", "rank", "coding", "--json").out)["problems"]
    assert problems == [told.removeprefix("prsm: note: ").rstrip()]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("rank",), "name a category of tasks, or give --complexity"),
        (("rank", "gardening"), "'gardening' is not one of"),
        (("recommend", "x", "--complexity", "huge"), "'huge' is not one of"),
        (("recommend", " "), "the task is blank"),
    ],
)
def test_a_wrong_question_exits_with_2(prsm, args, said):
    done = prsm("models", *args)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


@pytest.mark.usefixtures("vendors")
def test_recommend_takes_models_of_installed_providers(prsm):
    done = prsm("models", "recommend", "Fix the bug", "--json")
    told = json.loads(done.out)
    assert (done.code, told["category"], told["complexity"]) == (0, "coding", None)
    assert {row["model"] for row in told["models"]} == {"fails/good", "works/big", "works/small"}
    assert told["models"][0]["model"] == "fails/good"


@pytest.mark.usefixtures("vendors")
@pytest.mark.requirement("E63")
def test_where_there_are_peers_only_they_are_recommended(prsm, monkeypatch):
    restrict(monkeypatch, "quick", "works/big", "other/thing")
    done = prsm("models", "recommend", "Fix the bug", "--complexity", "simple", "--json")
    told = json.loads(done.out)
    assert [row["model"] for row in told["models"]] == ["works/small", "works/big"]
    why = "model 'other/thing' needs provider 'other', which is not installed"
    assert told["problems"] == [f"a peer model is left out: {why}"]
    restrict(monkeypatch, "quick")
    done = prsm("models", "recommend", "Fix the bug", "--complexity", "complex")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("prsm: note: no model fits")
