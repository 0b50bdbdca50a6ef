"""Keys are told by their shape, and what is only as random as a key stays."""

from __future__ import annotations

import json
import string
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.permissions import Redactor
from prsm_core.permissions.random_keys import holds_key
from prsm_core.permissions.secret_shapes import MARK
from prsm_core.policies.tables import word_set
from tests.permissions.planted import HARMLESS, KINDS, NAMED, harmless_text, named_key, planted_key
from tests.sources import ROOT

SEEDS = 12
TOLD = 12  # characters in a row of a key that tell too much of it


def told_of(key: str, text: str) -> list[str]:
    """Return the parts of a key that a text still has."""
    return [key[at : at + TOLD] for at in range(len(key) - TOLD + 1) if key[at : at + TOLD] in text]


@pytest.mark.requirement("U19")
@pytest.mark.parametrize("kind", KINDS)
def test_a_key_of_any_kind_is_taken_out_of_prose_code_and_json(kind):
    key = planted_key(kind)
    said = [
        f"Use {key} for this.",
        f"It is {key}.",
        f"({key}), `{key}`; <{key}>",
        f"export ACME={key}; run --with={key}",
        f"acme: '{key}'",
        f"name,value\nacme,{key}\n",
        json.dumps({"value": key}),
        json.dumps({"text": f"line\n{key}\tmore"}),
        json.dumps(json.dumps({"text": f"line\n{key}\n"})),
    ]
    for text in said:
        clean = Redactor(()).text(text)
        assert (told_of(key, clean), MARK in clean) == ([], True), text
        assert Redactor(()).finds(["a line that is clean", text])


@pytest.mark.requirement("U19")
@pytest.mark.parametrize("kind", NAMED)
def test_a_key_that_only_words_tell_of_is_taken_out(kind):
    text, key = named_key(kind)
    for said in (text, f"first\n{text}\nlast"):
        assert told_of(key, Redactor(()).text(said)) == []


@pytest.mark.requirement("U19")
def test_of_keys_made_up_at_random_hardly_any_is_missed():
    keys = [planted_key(kind, seed) for kind in KINDS for seed in range(1, SEEDS)]
    missed = [key for key in keys if told_of(key, Redactor(()).text(f"use {key} now"))]
    assert len(missed) * 100 <= len(keys), missed


@pytest.mark.requirement("U19")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 7, 19])
def test_a_key_that_a_stream_cuts_is_taken_out(kind, size):
    key = planted_key(kind)
    text = f"I found {key} in it, and then some."
    stream = Redactor(()).stream()
    shown = "".join(stream.feed(text[at : at + size]) for at in range(0, len(text), size))
    assert told_of(key, shown + stream.flush()) == []


@pytest.mark.parametrize("kind", HARMLESS)
def test_ids_digests_data_and_names_of_files_stay(kind):
    for seed in range(SEEDS):
        text = harmless_text(kind, seed)
        for said in (text, f"see {text} now", f"id={text}, {text}.", json.dumps({"id": text})):
            assert Redactor(()).text(said) == said


@pytest.mark.parametrize(
    "text",
    [
        "test_a_very_long_function_name_with_many_words_and_2_digits3",
        "x86_64-unknown-linux-gnu, cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "registry-1.docker.io/library-name/with_many_parts-2024-01-31T10-20-30",
        "AbstractSingleton_ProxyFactoryBean2Impl_WithManyWords1",
        "SCREAMING_SNAKE_CASE_WITH_MANY_WORDS_V2_AND_3",
        "feature/add-oauth2-support-for-github-enterprise-v3",
        "com.example.service.impl.UserAccountServiceImplV2Test.testMethod1",
        "secret: getSecretFromTheVault2, token=compute_the_token_for_v2(name)",
        "PrivateKey = modcrypt32.NewProc('x')",
        "password: string | undefined2; token = os.environ['TOKEN_OF_V2']",
        "var--color-primary-500 text-gray-900 md:grid-cols-2 hover:bg-blue-600-important",
        "urn:ietf:params:oauth:grant-type:jwt-bearer2",
        "/home/me/project-name_2/node_modules/some-package-name-1/lib/index_v2.js",
    ],
)
def test_names_that_people_wrote_stay(text):
    assert Redactor(()).text(text) == text


if TYPE_CHECKING:
    from pathlib import Path

NAME = st.text(alphabet=string.ascii_lowercase, min_size=2, max_size=9)
WORDS = st.sampled_from(
    sorted(
        word_set(
            "list of names that are made from english words with some numbers between them and the"
            " value handler service request response status error config option parser builder"
            " index worker thread process signal create delete update remove insert select version"
        )
    )
)


@given(NAME, st.lists(st.one_of(WORDS, st.sampled_from("1234")), min_size=5, max_size=12))
def test_a_name_of_words_and_numbers_is_no_key(prefix, words):
    camel = "".join(map(str.capitalize, words))
    for name in ("_".join([prefix, *words]), "-".join([prefix, *words]), f"{prefix}_{camel}"):
        assert not holds_key(name)


def sources() -> list[Path]:
    """Return the texts of this repository but for those of tests, which plant keys."""
    kinds = {".py", ".md", ".sql", ".yaml", ".toml", ".json"}
    folders = [ROOT / name for name in ("prsm_core", "docs", "benchmarks")]
    found = [*ROOT.iterdir(), *(path for folder in folders for path in folder.rglob("*"))]
    return [path for path in found if path.suffix in kinds]


def test_no_word_of_this_repository_is_taken_for_a_key():
    paths = sources()
    assert len(paths) > 300
    assert [path.name for path in paths if holds_key(path.read_text(errors="ignore"))] == []
