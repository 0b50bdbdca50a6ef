"""One resolution of models' names: what each kind means, and what is refused, with the nearest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.config.schema import Settings
from prsm_core.domain.models import ModelInfo
from prsm_core.domain.notes import ModelChoice
from prsm_core.engine.providers.model_choice import resolve_model
from prsm_core.engine.providers.model_names import DEFAULT_MODEL, SHOWN, Listing, ModelNames
from prsm_core.errors import ModelNotAvailableError

SETTINGS = Settings.of(
    {
        "models": {
            "fast": {"provider": "codex", "model_id": "gpt-mini", "reasoning_effort": "low"},
            "wrong": {"provider": "codex", "model_id": "gpt-larg"},
            "far": {"provider": "elsewhere", "model_id": "m"},
        },
        "model_registry": {"own-tune": {"provider": "claude", "tier": "strong"}},
        "providers": {"claude": {"models": ["set-here"]}},
    }
)
CLAUDE = Listing(
    models=(
        ModelInfo(model_id="sonnet", display_name="Sonnet 5", aliases=("claude-sonnet-5",)),
        ModelInfo(model_id="opus"),
        ModelInfo(model_id="inner", hidden=True),
    ),
    others=frozenset({"claude-sonnet-5-20260101"}),
)
CODEX = Listing(models=(ModelInfo(model_id="gpt-mini"), ModelInfo(model_id="gpt-large")))
INSTALLED = ("claude", "codex", "router")
NAMES = ModelNames(
    settings=SETTINGS, providers=INSTALLED, listed={"claude": CLAUDE, "codex": CODEX}
)


def resolved(text, base="claude", names=NAMES):
    choice = resolve_model(text, ModelChoice(provider=base, model="opus"), names)
    return choice.name


def refusal(text, base="claude", names=NAMES):
    with pytest.raises(ModelNotAvailableError) as caught:
        resolved(text, base, names)
    return caught.value


@pytest.mark.parametrize(
    ("text", "base", "means"),
    [
        (None, "claude", "claude/opus"),
        ("codex", "claude", "codex/default"),
        ("claude", "claude", "claude/default"),
        (" codex ", "claude", "codex/default"),
        ("router", "codex", "router/default"),
        ("fast", "claude", "codex/gpt-mini"),
        ("codex/gpt-large", "claude", "codex/gpt-large"),
        ("codex/default", "claude", "codex/default"),
        ("default", "claude", "claude/default"),
        ("sonnet", "claude", "claude/sonnet"),
        ("claude-sonnet-5", "claude", "claude/claude-sonnet-5"),
        ("claude-sonnet-5-20260101", "claude", "claude/claude-sonnet-5-20260101"),
        ("inner", "claude", "claude/inner"),
        ("own-tune", "claude", "claude/own-tune"),
        ("set-here", "claude", "claude/set-here"),
        ("anything-9", "router", "router/anything-9"),
        ("openai/gpt-9", "router", "router/openai/gpt-9"),
        ("router/openai/gpt-9", "claude", "router/openai/gpt-9"),
    ],
)
def test_what_a_name_means(text, base, means):
    assert resolved(text, base) == means


def test_an_alias_brings_its_effort():
    choice = resolve_model("fast", ModelChoice(provider="claude", model="opus"), NAMES)
    assert choice.reasoning_effort == "low"


@pytest.mark.requirement("E64")
@pytest.mark.parametrize(
    ("text", "base", "nearest"),
    [
        ("sonet", "claude", "sonnet"),
        ("Sonnet", "claude", "sonnet"),
        ("Sonnet 5", "claude", "sonnet"),
        ("sonnet", "codex", "claude/sonnet"),
        ("claude/opuss", "codex", "claude/opus"),
        ("gpt-large", "claude", "codex/gpt-large"),
        ("codx", "claude", "codex"),
        ("codx", "router", "codex"),
        ("Codex", "router", "codex"),
        ("codx/gpt-large", "router", "codex"),
        ("claud", "codex", "claude"),
        ("fasst", "router", "fast"),
        ("nope", "codex", "codex"),
        ("wrong", "claude", "codex/gpt-large"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(text, base, nearest):
    error = refusal(text, base)
    assert error.code == "unknown_model"
    assert nearest in error.hint, error.hint


@pytest.mark.parametrize("text", ["", "  ", "codex/", "codex/ ", "/gpt-mini", "/"])
def test_what_names_no_model_is_refused(text):
    for base in INSTALLED:
        assert refusal(text, base).code == "unknown_model"


@pytest.mark.parametrize("text", ["gemini", "gemini/pro", "far"])
def test_a_provider_that_is_not_installed_is_told_as_such(text):
    error = refusal(text)
    assert "not installed" in error.message
    assert "claude, codex, router" in error.hint


def test_what_a_provider_lists_is_its_model_whatever_else_is_called_so():
    listed = {"router": Listing(models=(ModelInfo(model_id="gemini"),))}
    names = ModelNames(settings=SETTINGS, providers=INSTALLED, listed=listed)
    assert resolved("gemini", "router", names) == "router/gemini"


def test_a_kept_list_refuses_nothing():
    kept = Listing(models=CODEX.models, is_fresh=False)
    names = ModelNames(settings=SETTINGS, providers=INSTALLED, listed={"codex": kept})
    assert resolved("gpt-new", "codex", names) == "codex/gpt-new"
    assert resolved("gpt-large", "codex", names) == "codex/gpt-large"


WORD = st.sampled_from(
    ["a", "b", "ab", "codex", "claude", "x", "m1", "m2", "default", "codx", "a/b", "", " "]
) | st.text(alphabet="abm1/x", max_size=5)
LISTINGS = st.builds(
    Listing,
    models=st.lists(
        st.builds(
            ModelInfo,
            model_id=WORD.filter(str.strip),
            display_name=st.none() | WORD,
            aliases=st.lists(WORD.filter(str.strip), max_size=2).map(tuple),
            hidden=st.booleans(),
        ),
        min_size=1,
        max_size=3,
    ).map(tuple),
    is_fresh=st.booleans(),
)
PROVIDERS = st.sampled_from(["a", "b", "codex", "claude", "x"])
ALIAS = st.fixed_dictionaries({"provider": PROVIDERS, "model_id": WORD.filter(str.strip)})
VOCABULARIES = st.builds(
    lambda aliases, installed, listed: ModelNames(
        settings=Settings.of({"models": aliases}),
        providers=installed,
        listed={name: listing for name, listing in listed.items() if name in installed},
    ),
    st.dictionaries(WORD.filter(lambda w: w == w.strip() and w), ALIAS, max_size=3),
    st.frozensets(PROVIDERS, min_size=1),
    st.dictionaries(PROVIDERS, LISTINGS, max_size=3),
)


@pytest.mark.requirement("E64")
@given(names=VOCABULARIES, text=WORD, data=st.data())
def test_a_name_means_one_model_of_an_installed_provider_or_is_refused(names, text, data):
    base = data.draw(st.sampled_from(sorted(names.providers)))
    parent = ModelChoice(provider=base, model="m")
    near = names.nearest(text, base)
    assert len(near) <= SHOWN
    for name in near:
        assert names.place(name, base)[0] in names.providers, "what is told is a name"
    try:
        choice = resolve_model(text, parent, names)
    except ModelNotAvailableError:
        return
    assert choice.provider in names.providers
    assert choice.model.strip()
    listing = names.listed.get(choice.provider)
    if listing is not None and listing.is_fresh:
        assert choice.model == DEFAULT_MODEL or listing.has(choice.model)
    if choice.provider != base:  # no model silently gets to another provider
        assert names.provider_of(text) == choice.provider
    if text.strip() in names.providers and text.strip() not in names.settings.models:
        assert choice.name == f"{text.strip()}/default"
    if choice.name not in names.settings.models:
        assert resolve_model(choice.name, parent, names).name == choice.name


@given(names=VOCABULARIES)
def test_everything_that_is_listed_is_taken_by_its_full_name(names):
    base = min(names.providers)
    for provider, listing in names.listed.items():
        for model in listing.models:
            for said in (model.model_id, *model.aliases):
                full = f"{provider}/{said}"
                if full not in names.settings.models:
                    choice = resolve_model(full, ModelChoice(provider=base, model="m"), names)
                    assert (choice.provider, choice.model) == (provider, said)
