"""Reads of others' regions in whole runs: told afterwards, or denied for an outline."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plugins.prsm_regions.tests.conftest import AUTH, done, lane, of_type, planner

TWO = [
    {"name": "ui", "description": "the page", "region": "ui"},
    {"name": "core", "description": "the parser", "region": "core"},
]
BODY = "return bool(token)"


def lanes(*steps: dict[str, Any]) -> dict[str, Any]:
    core = lane("core", done("parser made"))
    return {"planner": planner(json.dumps(TWO)), "ui": lane("ui", *steps), "core": core}


def notices(prsm) -> list[str]:
    return [one["text"] for one in of_type(prsm.events(), "notice") if "has read" in one["text"]]


@pytest.fixture
def page(prsm):
    (prsm.workspace / "ui").mkdir()
    (prsm.workspace / "ui" / "page.py").write_text("def own_page():\n    return 'my own body'\n")
    (prsm.workspace / "core" / "auth.py").write_text(AUTH + "        # why that is so\n" * 30)
    return prsm


@pytest.mark.long
@pytest.mark.requirement("R16")
def test_a_read_of_anothers_region_is_told_once_and_one_of_the_own_is_not(page):
    read = {"shell": "cat core/auth.py ui/page.py"}
    page.play(lanes(read, {"expect": [BODY], **read}, done("page made")))
    told = page.regions("--on-ask", "allow")
    assert told.stdout.count("COMPLETED") == 2, told.stdout + told.stderr
    assert notices(page) == [
        "ui has read of regions that are not its own: core/auth.py (Bash)",
    ]


@pytest.mark.requirement("R16")
def test_where_interfaces_are_set_an_outline_stands_for_a_body_and_the_own_is_read(page):
    steps = (
        {"shell": "cat core/auth.py"},
        {"expect": ["its interface is what you may see", "def validate(self, token: str) -> bool"],
         "shell": {"cmd": "cat ui/page.py", "id": "own"}},
        {"expect": ["my own body"], "say": "${own.stdout}", **done("page made")},
    )  # fmt: skip
    page.play(lanes(*steps), reads="interface")
    told = page.regions("--on-ask", "allow")
    assert told.stdout.count("COMPLETED") == 2, told.stdout + told.stderr
    events = page.events()
    denied, own = [one for one in of_type(events, "tool_call_finished") if one["exit_code"] == 0
                   or one["status"] == "denied"]  # fmt: skip
    assert denied["status"] == "denied"
    assert BODY not in json.dumps(denied)
    assert own["status"] == "completed"
    labels = {
        one["labels"]["regions/name"]: one["labels"]
        for one in of_type(events, "agent_spawned")
        if "regions/name" in one["labels"]
    }
    assert labels["ui"]["regions/others"] == "core\n"
    assert labels["core"]["regions/reads"] == "interface"
