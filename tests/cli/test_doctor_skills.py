"""`prsm doctor` lists the skills that agents are told of, and says what is wrong with others."""

from __future__ import annotations

import json

import pytest


@pytest.mark.requirement("N31")
def test_skills_are_listed_and_one_that_is_wrong_is_told(prsm_process, monkeypatch, tmp_path):
    for name, text in (("right", "---\ndescription: x\n---\n"), ("wrong", "nothing")):
        folder = tmp_path / "user/.claude/skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(text)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    told = [f for f in json.loads(prsm_process("doctor", "--json").out) if f["check"] == "skills"]
    assert [finding["status"] for finding in told] == ["warning", "ok"]
    assert "skills/wrong/SKILL.md: has no front matter" in told[0]["message"]
    assert told[1]["message"].startswith("right")
    monkeypatch.setenv("PRSM__CONTEXT__SKILLS", "false")
    told = [f for f in json.loads(prsm_process("doctor", "--json").out) if f["check"] == "skills"]
    assert [finding["status"] for finding in told] == ["ok"]
    assert "context.skills is false" in told[0]["message"]
