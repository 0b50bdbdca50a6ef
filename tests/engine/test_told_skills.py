"""What stands of skills in a prompt can be read back; a session tells what its vendor does not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from prsm_core.config.paths import SKILLS
from prsm_core.engine.agents.skills import (
    HEAD,
    MAX_BYTES,
    View,
    as_told,
    news,
    redacted,
    section,
    skills_in,
    with_skills,
)
from prsm_core.kit.quotation import quote
from prsm_core.permissions.skills import Skill

ROLE = "You are one agent.\n- a list of the role"
VIEW = View("/work", "/home/u", holds=True, trusted=True)
PDF = Skill("pdf", "Fill forms.", ".claude/skills/pdf/SKILL.md")
MAIL = Skill("mail", "Write letters.", "~/.agents/skills/mail/SKILL.md")

TEXTS = st.text(min_size=1, max_size=30)
MANY = st.lists(
    st.builds(
        Skill,
        TEXTS,
        TEXTS,
        st.builds(
            "{}{}/{}/SKILL.md".format,
            st.sampled_from(("", "~/")),
            st.sampled_from(SKILLS),
            TEXTS.filter(lambda name: "/" not in name),
        ),
    ),
    max_size=12,
)


def test_without_skills_a_prompt_is_as_it_was():
    assert with_skills(ROLE, ()) == ROLE
    assert section(()) == ""
    assert as_told(ROLE, VIEW, ()) is ROLE


def test_skills_stand_on_a_line_each_by_the_paths_of_now():
    kept = with_skills(ROLE, (MAIL, PDF))
    told = as_told(kept, VIEW, ())
    assert told == (
        f"{ROLE}\n\n{HEAD}\n"
        '- "mail": "Write letters." in "/home/u/.agents/skills/mail/SKILL.md"\n'
        '- "pdf": "Fill forms." in "/work/.claude/skills/pdf/SKILL.md"'
    )
    moved = View("/moved", "/home/other", holds=True, trusted=True)
    assert '"/moved/.claude/skills/pdf/SKILL.md"' in as_told(kept, moved, ())


def test_what_a_vendor_tells_by_itself_is_not_told_twice():
    kept = with_skills(ROLE, (MAIL, PDF))
    assert skills_in(as_told(kept, VIEW, {"~/.agents/skills"})) == (VIEW.located(PDF),)
    assert as_told(kept, VIEW, {"~/.agents/skills", ".claude/skills"}) == ROLE


def test_what_is_not_trusted_or_not_wanted_any_more_is_not_told():
    kept = with_skills(ROLE, (MAIL, PDF))
    untrusted = View("/work", "/home/u", holds=True, trusted=False)
    assert skills_in(as_told(kept, untrusted, ())) == (VIEW.located(MAIL),)
    homeless = View("/work", None, holds=True, trusted=True)
    assert skills_in(as_told(kept, homeless, ())) == (VIEW.located(PDF),)
    assert as_told(kept, View("/work", "/home/u", holds=False, trusted=True), ()) == ROLE


def test_what_stands_behind_stays():
    kept = f"{with_skills(ROLE, (PDF,))}\n\nYou work in a worktree.\n- of your own"
    assert as_told(kept, VIEW, {".claude/skills"}) == (
        f"{ROLE}\n\nYou work in a worktree.\n- of your own"
    )
    assert as_told(kept, VIEW, ()).endswith("\n\nYou work in a worktree.\n- of your own")
    assert skills_in(kept) == (PDF,)


def test_more_than_there_is_room_for_is_counted():
    many = [Skill(f"s{n:03}", "x" * 300, f".claude/skills/s{n:03}/SKILL.md") for n in range(100)]
    text = section(many)
    assert len(text.encode()) <= MAX_BYTES
    assert MAX_BYTES - len(text.encode()) < 500
    kept = skills_in(with_skills(ROLE, many))
    assert kept == tuple(many[: len(kept)])
    rest = f"- {100 - len(kept)} more are left out"
    assert rest in text
    assert rest in as_told(with_skills(ROLE, many), VIEW, ())
    assert as_told(with_skills(ROLE, many), VIEW, {".claude/skills"}) == ROLE


def test_news_are_what_has_changed():
    assert news((PDF,), (PDF,)) == ""
    assert news((), ()) == ""
    assert skills_in(news((PDF,), (MAIL, PDF))) == (MAIL, PDF)
    assert "none any more" in news((PDF,), ())


def test_secrets_are_taken_out_and_a_path_with_one_is_none():
    sly = Skill("pdf", "uses hunter2", ".claude/skills/pdf/SKILL.md")
    path = Skill("x", "y", ".claude/skills/hunter2/SKILL.md")
    assert redacted((sly, path), lambda text: text.replace("hunter2", "***")) == (
        Skill("pdf", "uses ***", ".claude/skills/pdf/SKILL.md"),
    )


@given(st.text(), MANY, st.text())
def test_what_a_prompt_tells_can_be_read_back(before, skills, after):
    kept = f"{with_skills(before, skills)}\n\n{quote(after)}"
    assert skills_in(kept) == tuple(skills)
    hidden = {skill.place for skill in skills}
    assert as_told(kept, VIEW, hidden) == f"{before}\n\n{quote(after)}"
    told = as_told(kept, VIEW, ())
    assert skills_in(told) == tuple(VIEW.located(skill) for skill in skills)
    assert len(told.splitlines()) >= len(skills)
