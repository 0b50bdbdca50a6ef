"""Secrets do not leave the engine, in any form they are likely to take."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.permissions import Redactor
from prsm_core.permissions.redaction import MARK

# Put together here, so that no tool that looks for keys finds one in this file.
SHAPES = [
    "sk-" + "ant-api03-" + "a1B2" * 10,
    "sk-" + "proj-" + "x" * 20,
    "ghp_" + "A1b2" * 9,
    "github_pat_" + "11ABC" * 8,
    "AKIA" + "IOSFODNN7EXAMPLE",
    "AIza" + "Sy" * 18,
    "xoxb-" + "123456789012-abcdef",
    "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0In0" + ".SflKxwRJSMeKKF2QT4",
    "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA " + "PRIVATE KEY-----",
]


@pytest.mark.parametrize("key", SHAPES, ids=lambda key: key[:8])
def test_what_looks_like_a_key_is_taken_out(key):
    assert Redactor(()).text(f"before {key} after") == f"before {MARK} after"
    assert key not in Redactor(()).text(json.dumps({"key": f"x={key}\n"}))


@pytest.mark.parametrize("text", ["Authorization: Bearer ", "bearer\t", "Bearer: "])
def test_a_bearer_token_is_taken_out(text):
    assert Redactor(()).text(f"{text}abcdefghij0123456789.x") == f"{text}{MARK}"


@pytest.mark.parametrize(
    "text",
    [
        "task-abcdefghijklmnopqrstuvwxyz",
        "the bearer of bad news",
        "risk-free-" + "a" * 20,
        "AKIAshort",
        "sk-short",
    ],
)
def test_ordinary_words_stay(text):
    assert Redactor(()).text(text) == text


def test_a_short_value_is_not_taken_for_a_secret():
    assert Redactor(["yes", ""]).text("yes, it is") == "yes, it is"


@given(st.text(min_size=8, max_size=40), st.text(max_size=20), st.text(max_size=20))
def test_no_form_of_a_known_secret_is_left(secret, before, after):
    redactor = Redactor([secret])
    data = secret.encode("utf-8", "surrogatepass")
    forms = (secret, quote(data, safe=""), base64.b64encode(data).decode().rstrip("="))
    for form in forms:
        assert MARK in redactor.text(f"{before}{form}{after}")
    assert redactor.text(secret) == MARK


def test_a_secret_that_holds_another_goes_as_a_whole():
    assert Redactor(["password", "password-two"]).text("x password-two y") == f"x {MARK} y"


def test_texts_are_redacted_at_any_depth_and_other_values_stay():
    value = {"a": ["my-secret", {"my-secret": ("x my-secret", 1, None, True)}], "n": 1.5}
    assert Redactor(["my-secret"]).value(value) == {
        "a": [MARK, {MARK: (f"x {MARK}", 1, None, True)}],
        "n": 1.5,
    }


@given(st.lists(st.text(max_size=80), max_size=30))
def test_a_text_seen_before_is_redacted_like_one_seen_first(texts):
    redactor = Redactor(["my-secret"])
    texts = [*texts, "no secret at all", "x my-secret y", "sk-abcdefghijklmnopqrstuv"]
    once = [redactor.text(text) for text in texts]
    assert once == [redactor.text(text) for text in texts]
    assert once == [Redactor(["my-secret"]).text(text) for text in texts]


def test_a_longer_secret_is_found_after_its_clean_beginning_was_seen():
    redactor = Redactor(["abcdefgh-secret"])
    assert redactor.text("abcdefgh") == "abcdefgh"
    assert redactor.text("abcdefgh-secret") == MARK
