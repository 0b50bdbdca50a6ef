"""Our own packages are known at one place: the engine names none but those the core depends on."""

from __future__ import annotations

import ast
import re

import pytest

from prsm_core.catalog.packages import EXAMPLE, OWN_PACKAGES, find_own, how_to_get
from prsm_core.distributions import DEFAULT_PACKAGES
from tests.sources import CORE, parsed, where

# A word of its own: what begins with a dot is a folder of a person's, which the engine protects.
# Some are called by a word that the engine has use for: of those, its package's name counts.
_WORDS = ("mcp", "protocols", "regions", "testing")  # that mean other things, too
_DEFAULT = {name.removeprefix("prsm-") for name in DEFAULT_PACKAGES}
_NAMES = "|".join(name for name in OWN_PACKAGES if name not in {*_WORDS, *_DEFAULT})
_OWN = rf"(?:prsm[-_])?(?:{_NAMES})|prsm[-_](?:{'|'.join(_WORDS)})"
NAMED = re.compile(rf"(?<![\w./-])(?:{_OWN})\b", re.IGNORECASE)


@pytest.mark.requirement("C1")
def test_the_engine_names_no_vendor():
    named = [
        f"{where(path, node)} {node.value[:60]!r}"
        for path in sorted((CORE / "engine").rglob("*.py"))
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if NAMED.search(node.value)
    ]
    assert not named


@pytest.mark.parametrize(
    "text", ["prsm install codex", "prsm_claude", "such as Gemini.", "acp", "prsm-regions"]
)
def test_a_name_is_recognised(text):
    assert NAMED.search(text)


def test_the_example_is_a_package_of_ours():
    assert find_own(EXAMPLE.removeprefix("prsm install ")) is not None


def test_what_is_not_there_is_told_with_the_way_to_it():
    assert how_to_get("codex") == "; prsm install codex"
    assert how_to_get("codx") == "; did you mean codex?"
    assert how_to_get("zzz") == ""
