"""Sessions, agents and ids are named by people: whatever they type is a name, and moves nothing."""

from __future__ import annotations

import pytest

NAMES = {
    "empty": "",
    "blank": "  ",
    "up": "../../..",
    "root": "/",
    "long": "x" * 10_000,
    "escape": "\x1b[2J\x1b]0;title\x07",
    "turned": "\u202egnorw",
    "glob": "*",
    "quote": "s1' OR '1'='1",
    "like": "%",
    "lines": "s1\ntree",
    "percent": "%s%n",
    "wide": "会话",
    "half": "\udc80",
    "number": "99999999999999999999999",
}
OF_A_SESSION = (
    ("tree", "{}"),
    ("events", "{}"),
    ("history", "master", "--session", "{}"),
    ("resume", "{}"),
    ("replay", "{}"),
    ("diff", "s1", "{}"),
    ("diff", "{}", "s1"),
    ("fork", "{}"),
    ("export", "{}", "--output", "out.json"),
    ("attach", "{}"),
    ("sessions", "show", "{}"),
    ("sessions", "delete", "{}", "--yes"),
    ("changes", "list", "--session", "{}"),
)
OF_SOMETHING_ELSE = (
    ("history", "{}"),
    ("kill", "{}"),
    ("prompt", "{}", "be quick"),
    ("answer", "{}", "deny"),
    ("fork", "s1", "--at", "{}"),
    ("fork", "s1", "--at", "master:{}"),
    ("changes", "show", "{}"),
    ("changes", "why", "{}"),
    ("accept", "{}"),
    ("reject", "{}", "--yes"),
    ("snapshot", "show", "{}"),
    ("snapshot", "restore", "{}", "--yes"),
    ("snapshot", "delete", "{}", "--yes"),
    ("undo", "{}", "--yes"),
)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_strange_name_is_of_nothing_and_is_shown_as_text(
    prsm, session, ledger, workspace, monkeypatch, name
):
    monkeypatch.chdir(workspace)
    before = ledger.read_bytes()
    for words in (*OF_A_SESSION, *OF_SOMETHING_ELSE):
        given = [word.format(name) if "{}" in word else word for word in words]
        done = prsm(*given)
        said = f"{given}: {done}"
        assert done.code, said
        assert "Traceback" not in done.err, said
        for text in (done.out, done.err):
            assert not {"\x1b", "\x07", "\u202e"} & set(text), said
    assert ledger.read_bytes() == before
    assert sorted(path.name for path in workspace.iterdir() if path.name != ".git") == []
