"""The guide explains every word that a person meets: none of the code's is missing or invented."""

from __future__ import annotations

import re

import pytest

from prsm_core.domain.agents import AgentRole, AgentState, PermissionMode
from tests.sources import ROOT

GUIDE = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
TABLES = {"role": AgentRole, "mode": PermissionMode, "state": AgentState}


def explained(head):
    """Return the words of the table of the guide with this head."""
    table = re.search(rf"^\| {head} \| \|\n\|---\|---\|\n((?:\|.*\n)+)", GUIDE, flags=re.MULTILINE)
    assert table is not None, f"the guide has no table of {head}s"
    return re.findall(r"^\| `(\w+)` \|", table[1], flags=re.MULTILINE)


@pytest.mark.parametrize("head", TABLES)
def test_every_word_of_a_kind_is_explained_once(head):
    assert sorted(explained(head)) == sorted(word.value for word in TABLES[head])


def test_the_readme_leads_to_the_guide():
    assert "(docs/guide.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
