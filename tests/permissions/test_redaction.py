"""Secrets do not leave the engine, in any form they are likely to take."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.permissions import Redactor
from prsm_core.permissions.secret_shapes import MARK

# Put together here, so that no tool that looks for keys finds one in this file.
SHAPES = [
    "sk-" + "ant-api03-" + "a1B2" * 10,
    "sk-" + "proj-" + "x" * 20,
    "ghp_" + "A1b2" * 9,
    "github_pat_" + "11ABC" * 8,
    "AKIA" + "IOSFODNN7EXAMPLE",
    "AIza" + "Sy" * 18,
    "xoxb-" + "123456789012-abcdef",
    "sk_" + "live_" + "a1B2" * 6,
    "npm_" + "a1B2" * 9,
    "hf_" + "a1B2" * 9,
    "pypi-" + "AgEIcHlwaS5vcmc" * 4,
    "ya29." + "a0AfH6SMBx" * 3,
    "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0In0" + ".SflKxwRJSMeKKF2QT4",
    "SG." + "a1B2" * 5 + "-x." + "c3D4" * 10,
    "AGE-SECRET-KEY-" + "1" + "QPZRY9X8GF" * 6,
    "age-secret-key-" + "1" + "qpzry9x8gf" * 6,
    "SK" + "0123456789abcdef" * 2,
    "MTk4" + "NjIyNDgzNDcxOTI1MjQ4" + ".Cl2FMQ." + "ZnCjm1XVW7vRze4b7Cq4se7kKWs",
    "xapp-" + "1-A0123-4567-abcdef",
    "glptt-" + "a1B2" * 6,
    "dop_v1_" + "0a1b" * 16,
    "shpat_" + "0a1B" * 8,
    "whsec_" + "a1B2" * 8,
    "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA " + "PRIVATE KEY-----",
]


@pytest.mark.parametrize("key", SHAPES, ids=lambda key: key[:8])
def test_what_looks_like_a_key_is_taken_out(key):
    assert Redactor(()).text(f"before {key} after") == f"before {MARK} after"
    assert key not in Redactor(()).text(json.dumps({"key": f"x={key}\n"}))
    assert key not in Redactor(()).text(json.dumps(json.dumps({"key": f"x\n{key}\t"})))


@pytest.mark.parametrize("text", ["Authorization: Bearer ", "bearer\t", "Bearer: "])
def test_a_bearer_token_is_taken_out(text):
    assert Redactor(()).text(f"{text}abcdefghij0123456789.x") == f"{text}{MARK}"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("https://me:hunter22@host/x", f"https://me:{MARK}@host/x"),
        ("postgres://app:p4ss-w0rd@db:5432/x", f"postgres://app:{MARK}@db:5432/x"),
        ("API_KEY=abcdef0123456789", f"API_KEY={MARK}"),
        ("Authorization: Basic dXNlcjpwYXNz", f"Authorization: Basic {MARK}"),
        ('"authorization": "basic dXNlcg=="', f'"authorization": "basic {MARK}"'),
        ("-H 'x-api-key: abcdefgh'", f"-H 'x-api-key: {MARK}'"),
        ('{"X-Auth-Token": "abcdefgh"}', f'{{"X-Auth-Token": "{MARK}"}}'),
        ("Name=x;AccountKey=" + "aB3/" * 21 + "==;E=y", f"Name=x;AccountKey={MARK};E=y"),
        ("x;SharedAccessKey=" + "aB3/" * 10 + "a3c=", f"x;SharedAccessKey={MARK}"),
        ("AC" + "0a" * 16 + ":" + "1b" * 16, f"AC{'0a' * 16}:{MARK}"),
        ("AC" + "0a" * 16 + "\ntoken=" + "1b" * 16, f"AC{'0a' * 16}\ntoken={MARK}"),
        (
            "https://hooks.slack.com/services/T0/B0/abcdef123",
            f"https://hooks.slack.com/services/{MARK}",
        ),
        (
            "https://discord.com/api/v10/webhooks/123/abc-def",
            f"https://discord.com/api/v10/webhooks/{MARK}",
        ),
        ('"client_secret": "abcdef0123456789"', f'"client_secret": "{MARK}"'),
        ("aws secret_access_key = abcdefghij0123456789/+", f"aws secret_access_key = {MARK}"),
    ],
)
def test_what_is_said_to_be_a_secret_is_taken_out(text, left):
    assert Redactor(()).text(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "task-abcdefghijklmnopqrstuvwxyz",
        "the bearer of bad news",
        "risk-free-" + "a" * 20,
        "AKIAshort",
        "sk-short",
        "https://host:8080/path@2x.png",
        "password = getpass()",
        "authorization: basic rules",
        "x-api-key: $KEY",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "www.example.com/a.b.c and MNO.py, SKILL.md, SG.x.y",
        "AC" + "0a" * 16,
        "the token: an opaque string of the server",
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


HEX = {
    "plain": lambda digits: digits,
    "capitals": str.upper,
    "colons": lambda digits: ":".join(_pairs(digits)),
    "spaces": lambda digits: " ".join(_pairs(digits.upper())),
    "dump": lambda digits: "\n ".join(_pairs(digits)),
    "words": lambda digits: " ".join(digits[n : n + 4] for n in range(0, len(digits), 4)),
    "array": lambda digits: "{0x" + ", 0x".join(_pairs(digits)) + "}",
    "escapes": lambda digits: "".join(f"\\x{pair}" for pair in _pairs(digits)),
}


def _pairs(digits):
    return [digits[n : n + 2] for n in range(0, len(digits), 2)]


@pytest.mark.requirement("U19")
@pytest.mark.parametrize("form", HEX)
@given(
    secret=st.text(min_size=8, max_size=20),
    before=st.text(max_size=9),
    cuts=st.lists(st.integers(1, 9)),
)
def test_a_known_secret_is_found_as_the_numbers_of_its_bytes(form, secret, before, cuts):
    redactor = Redactor([secret])
    written = HEX[form](secret.encode().hex())
    text = f"{before} is {written} after"
    clean = redactor.text(text)
    assert MARK in clean
    assert written not in clean
    stream, told = redactor.stream(), []
    for cut in [*cuts, *([1] * len(text))]:
        told.append(stream.feed(text[:cut]))
        text = text[cut:]
    shown = "".join(told) + stream.flush()
    assert MARK in shown
    assert written not in shown


BETWEEN_DIGITS = ["", " ", ":", ",", "-", "\u2003", "\x1c", "\n\t ", "0x", " 0x", "\\x", "%"]


@given(
    secret=st.text(min_size=8, max_size=20),
    between=st.lists(st.sampled_from(BETWEEN_DIGITS), min_size=1, max_size=9),
    around=st.tuples(
        st.sampled_from(["", "x", "0", "é", "0x"]), st.sampled_from(["", "x", "0x4", "x0"])
    ),
    is_upper=st.booleans(),
)
def test_a_search_finds_what_would_be_taken_out_however_its_digits_stand(
    secret, between, around, is_upper
):
    digits = secret.encode().hex()
    written = "".join(
        digit + between[place % len(between)] for place, digit in enumerate(digits[:-1])
    )
    text = f"{around[0]}{written}{digits[-1]}{around[1]}"
    text = text.upper() if is_upper else text
    if Redactor([secret]).text(text) != text:
        assert Redactor([secret]).finds(["a line that is clean", text])
    assert Redactor([secret]).finds([digits])


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


KNOWN = ["my very secret phrase", "hunter2-hunter2", "with space"]


@pytest.mark.requirement("U19")
@given(
    st.lists(
        st.one_of(
            st.sampled_from([*SHAPES, *KNOWN, "Authorization: Bearer abcdefghij0123456789.x"]),
            st.text(max_size=20),
        ),
        max_size=8,
    ),
    st.sampled_from([" ", "\n", "  ", '" "']),
    st.data(),
)
def test_a_secret_is_found_wherever_a_stream_is_cut(words, between, data):
    text = between.join(words)
    stream = (redactor := Redactor(KNOWN)).stream()
    shown, left = "", text
    while left:
        size = data.draw(st.integers(1, max(len(left), 1)))
        shown += stream.feed(left[:size])
        left = left[size:]
    shown += stream.flush()
    hidden = [word for word in words if word in {*SHAPES, *KNOWN}]
    assert not [word for word in hidden if word in shown and word not in redactor.text(text)]
    assert "abcdefghij0123456789.x" not in shown


@given(st.text(alphabet="abc .\n-", max_size=300), st.integers(1, 20))
def test_an_ordinary_text_comes_whole_in_order_and_soon(text, size):
    stream = Redactor(KNOWN[1:2]).stream()
    shown = ""
    for at in range(0, len(text), size):
        shown += stream.feed(text[at : at + size])
        assert shown == text[: len(shown)]
        assert " " not in text[len(shown) : at + size]
    assert shown + stream.flush() == text


def test_a_word_too_long_to_judge_is_not_shown_and_the_next_one_is():
    stream = Redactor(()).stream()
    shown = "".join(stream.feed("x" * 1000) for _ in range(20))
    assert shown == MARK
    assert stream.feed("xxx and on ") == " and on "


def test_a_private_key_that_comes_by_the_line_is_never_shown():
    stream = Redactor(()).stream()
    key = SHAPES[-1]
    lines = ["here:\n", *key.splitlines(keepends=True), "\nthere "]
    assert "".join(map(stream.feed, lines)) + stream.flush() == f"here:\n{MARK}\nthere "
