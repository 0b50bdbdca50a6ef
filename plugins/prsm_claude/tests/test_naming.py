"""Claude's names of tools and PRSM's."""

from __future__ import annotations

from typing import Any

import pytest
from prsm_claude import naming
from prsm_testing.doubles import session_request

from prsm_core.domain.agents import AgentRole
from prsm_core.domain.permissions import Answer
from prsm_core.domain.tools import NATIVE_TOOLS


def test_an_agent_is_offered_its_tools_and_the_question():
    def offered(*tools, orchestrates=False, role=AgentRole.WORKER):
        request = session_request("/work", native_tools=frozenset(tools), role=role)
        return naming.offered(request, orchestrates=orchestrates)

    assert offered("Read", "Bash") == ["Bash", "Read", "AskUserQuestion"]
    assert offered(orchestrates=True) == ["AskUserQuestion"]
    assert offered() == []
    assert "Agent" not in offered(*NATIVE_TOOLS, "Agent", "Task")
    for role in (AgentRole.EXPERT, AgentRole.REVIEWER):  # for commands that only read
        assert offered("Read", role=role) == ["Bash", "Read", "AskUserQuestion"]
        assert offered("Glob", role=role) == ["Glob", "AskUserQuestion"]
    assert "Bash" not in offered("Read", role=AgentRole.MASTER)


def test_only_the_tools_of_our_own_server_are_ours():
    assert naming.is_ours("mcp__prsm__spawn_child")
    assert not naming.is_ours("mcp__other__spawn_child")
    assert naming.plain("mcp__prsm__spawn_child") == "spawn_child"


@pytest.mark.parametrize(
    ("name", "given", "tool", "command", "paths"),
    [
        ("Bash", {"command": "ls", "path": "x"}, "Bash", "ls", ()),
        ("Edit", {"file_path": "/a"}, "Edit", None, ("/a",)),
        ("MultiEdit", {"file_path": "/a"}, "Edit", None, ("/a",)),
        ("NotebookEdit", {"notebook_path": "/n"}, "Edit", None, ("/n",)),
        ("Grep", {"pattern": "x", "path": "src"}, "Grep", None, ("src",)),
        ("Glob", {"pattern": "*"}, "Glob", None, ()),
        ("WebFetch", {"url": "u"}, "WebFetch", None, ()),
        ("mcp__a__b", {"n": 1}, "mcp__a__b", None, ()),
    ],
)
def test_a_call_becomes_a_request(name, given, tool, command, paths):
    asked = naming.permission("a1", name, given, "/work")
    assert (asked.agent_id, asked.tool, asked.cwd) == ("a1", tool, "/work")
    assert (asked.command, asked.paths, asked.arguments) == (command, paths, given)


def test_questions_are_taken_one_by_one():
    entry = {
        "question": "Which?",
        "header": "Pick",
        "options": [{"label": "A"}, {"label": "B"}],
        "multiSelect": True,
    }
    ((key, question), (bare, _)) = naming.questions({"questions": [entry, {"question": "Why?"}]})
    assert (key, bare) == ("Which?", "Why?")
    assert (question.text, question.options, question.multiple) == (
        "Pick: Which?",
        ("A", "B"),
        True,
    )
    assert list(naming.questions({"questions": None})) == []


def test_an_answer_is_a_text():
    assert naming.answer_text(Answer(choices=("A", "B"), text="both")) == "A, B, both"
    assert naming.answer_text(Answer(text="no human is attached")) == "no human is attached"


def test_questions_of_an_odd_shape_are_read_as_far_as_they_go():
    odd: tuple[Any, ...] = (None, 7, "x", [], {}, [None], [7], [{}], {"a": 1})
    for value in odd:
        assert all(isinstance(text, str) for text, _ in naming.questions({"questions": value}))
        [(text, question)] = naming.questions({"questions": [{"question": "?", "options": value}]})
        assert (text, all(isinstance(one, str) for one in question.options)) == ("?", True)
