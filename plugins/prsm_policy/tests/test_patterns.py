"""Patterns stand for the names that bash puts in their place."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from prsm_policy.expansion import Sight, expand
from prsm_policy.shell import read_script

from prsm_core.policies.patterns import UntoldError, part_of

BASH = shutil.which("bash") or ""
LOCALES = ("C", "C.UTF-8", None)  # None is what the tests run under
NAMES = st.lists(
    st.text("ab.-0AZ]!é~*\\ ", min_size=1, max_size=4).filter(lambda name: name not in {".", ".."}),
    max_size=8,
)
USUAL = ["a", "b", "ab", "A", ".a", ".ab", "-a", "0", "a.b", "]", "[a"]
PIECES = st.sampled_from(
    [
        *("a", "b", "A", "0", ".", "-", "]", "!", "é", "~"),
        *("*", "?", "**", "[", "[a", "[ab]", "[!a]", "[^a]", "[^.]", "[a-b]", "[A-Z]", "[!a-b]"),
        *("[]a]", "[!]a]", "[a-]", "[-a]", "[.]", "[[:alpha:]]", "[![:digit:]]", "[[:alpha:]0]"),
        *("[[=a=]]", "[[.a.]]", "[[:none:]]", "[[:alpha:]", "[*]", "[?]", "[a-b-0]", "[b-a]"),
        *("\\*", "\\?", "\\[", "\\.", "\\a", "\\]", "[\\]a]", "[a\\-b]", "[\\a-\\b]", "[\\!a]"),
        *("'*'", "'a'", '"?"', "'-'", "'['", "[a'-'b]", "['!'a]", "'.'", "''", "[[:'alpha':]]"),
    ]
)
PART = st.lists(PIECES, min_size=1, max_size=4).map("".join)
PATTERN = st.lists(PART, min_size=1, max_size=3).map("/".join)


def fill(folder, names):
    """Make a file of each name, in a folder of that name a file of each again."""
    names = [*dict.fromkeys((*USUAL, *names))]
    for name in names:
        (folder / name).mkdir(exist_ok=True)
        for inner in names[::2]:
            (folder / name / inner).touch()
    for name in names[::3]:
        (folder / f"{name}f").touch()


def by_bash(raw, folder, locale):
    """Return the words that bash makes of one."""
    environ = {key: text for key, text in os.environ.items() if not key.startswith(("LC_", "LANG"))}
    environ |= {"LC_ALL": locale} if locale else {"LANG": os.environ.get("LANG", "")}
    done = subprocess.run(
        [BASH, "--noprofile", "--norc", "-c", f"printf '%s\\0' {raw}"],
        cwd=folder,
        env=environ,
        capture_output=True,
        check=True,
    )
    return sorted(os.fsdecode(done.stdout).split("\0")[:-1])


def by_reading(raw, folder):
    """Return the words that are read, None where they cannot be told."""
    script = read_script(f"printf '%s\\0' {raw}")
    assume(script.plain and len(script.commands) == 1)
    words = script.commands[0].words[2:]
    assume(len(words) == 1 and not words[0].tilde)
    if not words[0].glob:
        return [words[0].text]
    root = os.path.realpath(folder)
    try:
        hits = expand(words[0].pattern, root, root, Sight())
    except UntoldError:
        return None
    assert all(hit.resolved == os.path.realpath(f"{root}/{hit.text}") for hit in hits)
    return sorted(hit.text for hit in hits) or [words[0].text]


@pytest.mark.requirement("E18")
@pytest.mark.skipif(not BASH, reason="needs bash")
@settings(max_examples=120, deadline=None)
@given(NAMES, PATTERN)
@example(["a", ".b"], ".[^.]*")
@example(["a", ".b"], ".?*")
@example(["a", "b"], "*/")
@example(["a", "b"], "*/*")
@example(["é", "a"], "?")
@example(["aé"], "a*")
@example(["a", "A", "b", "Z"], "[a-b]")
@example(["-0", "-a"], "-[0-9]")
@example(["]", "!"], "[]!]")
@example(["\\a", "a"], "\\\\*")
def test_a_pattern_stands_for_what_bash_makes_of_it_in_each_locale(names, raw):
    with tempfile.TemporaryDirectory() as name:
        fill(Path(name), names)
        read = by_reading(raw, name)
        if read is not None:
            for locale in LOCALES:
                assert by_bash(raw, name, locale) == read


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        (".en[^x]", ".env", True),
        (".en[!v]", ".env", False),
        ("[[:alpha:]]*", "key.pem", True),
        (".[^.]*", ".env", True),
        ("*", ".env", False),
        ("?env", ".env", False),
        ("[.]env", ".env", False),
        ("\\.env", ".env", True),
        ("*.*", "a", False),
        ("*a*b*c*", "xxaxbxcx", True),
        ("**", "a/b", True),
        ("[a", "[a", True),
        ("[]-a]", "]", True),
        ("[0-9]", "5", True),
    ],
)
def test_a_pattern_matches_a_name(pattern, name, matches):
    assert part_of(pattern).matches(name) is matches


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("[a-c]", "B"),
        ("[!a-c]", "B"),
        ("[[=a=]]", "a"),
        ("[[.a.]]", "a"),
        ("?", "é"),
        ("[A-z]", "_"),
        ("[b-a]", "a"),
        ("[[:none:]]", "a"),
        ("[[:alpha:]", "a"),
        ("[[.space.]]", " "),
        ("[é]", "é"),
        ("a" * 300, "a"),
    ],
)
def test_what_the_locale_decides_is_not_told(pattern, name):
    with pytest.raises(UntoldError):
        part_of(pattern).matches(name)


@pytest.mark.parametrize("pattern", ["../*", "a*/../*", ".*", "[.a]*//x", "/*", "/et?/passwd"])
def test_what_may_lead_out_is_not_told(tmp_path, pattern):
    (tmp_path / "ab").mkdir()
    root = str(tmp_path)
    if pattern == "[.a]*//x":
        (tmp_path / "ab" / "x").touch()
    with pytest.raises(UntoldError):
        expand(pattern, root, root, Sight())


@pytest.mark.parametrize(
    "sight", [Sight(entries=9), Sight(scans=1), Sight(found=9)], ids=["entries", "scans", "found"]
)
def test_looking_is_bounded(tmp_path, sight):
    for number in range(10):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "x").touch()
    with pytest.raises(UntoldError):
        expand("*/*", str(tmp_path), str(tmp_path), sight)


def test_many_stars_take_no_long():
    part = part_of("*a" * 60 + "*b")
    assert not part.matches("a" * 255)
