"""Skills are found in the user's and a trusted workspace's folders; a bad one harms no other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.config.paths import SKILLS, SkillPlaces
from prsm_core.permissions.skills import (
    MAX_BYTES,
    MAX_DESCRIPTION,
    MAX_ENTRIES,
    MAX_FRONT,
    MAX_NAME,
    MAX_SKILLS,
    FoundSkills,
    Skill,
    find_skills,
)
from tests.plain_user import as_plain_user

CLAUDE, AGENTS = ".claude/skills", ".agents/skills"


@pytest.fixture
def places(tmp_path):
    for name in ("home", "workspace"):
        (tmp_path / name).mkdir()
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    return SkillPlaces(workspace=str(workspace), home=str(home), trusted=True)


def put(root, name, text=None, folder=CLAUDE):
    """Write a skill; return its file."""
    path = Path(root, folder, name, "SKILL.md")
    path.parent.mkdir(parents=True)
    told = f"---\nname: {name}\ndescription: Use it for {name}.\n---\nDo so.\n"
    path.write_bytes(told.encode() if text is None else text)
    return path


def front(*lines):
    return "\n".join(("---", *lines, "---", "body")).encode()


def test_without_folders_there_is_none(places):
    assert find_skills(places) == FoundSkills()


@pytest.mark.requirement("N31")
def test_skills_are_told_by_name_with_where_they_are(places):
    put(places.workspace, "zip")
    put(places.workspace, "Pdf", folder=".codex/skills")
    put(places.home, "mail", folder=".gemini/skills")
    found = find_skills(places)
    assert found.mistakes == ()
    assert found.skills == (
        Skill("mail", "Use it for mail.", "~/.gemini/skills/mail/SKILL.md"),
        Skill("Pdf", "Use it for Pdf.", ".codex/skills/Pdf/SKILL.md"),
        Skill("zip", "Use it for zip.", ".claude/skills/zip/SKILL.md"),
    )
    assert [skill.place for skill in found.skills] == ["~/.gemini/skills", ".codex/skills", CLAUDE]


@pytest.mark.requirement("N31")
def test_of_a_workspace_that_is_not_trusted_nothing_is_read(places):
    put(places.workspace, "ours")
    put(places.workspace, "wrong", b"no front matter")
    put(places.home, "mine")
    untrusted = SkillPlaces(workspace=places.workspace, home=places.home, trusted=False)
    found = find_skills(untrusted)
    assert [skill.name for skill in found.skills] == ["mine"]
    assert found.mistakes == ()
    assert list(untrusted.folders()) == [f"{places.home}/{folder}" for folder in SKILLS]
    assert find_skills(SkillPlaces(workspace=places.workspace, home=None, trusted=False)) == (
        FoundSkills()
    )


BOMB = [f"b{n}: [*a,*a,*a,*a,*a,*a]" for n in range(450)]
BAD = {
    "nothing": (b"", "has no front matter"),
    "no-front": (b"Use me.", "has no front matter"),
    "no-end": (b"---\nname: x\ndescription: y\n", "has no front matter"),
    "late-end": (b"---\nname: x\n# " + b"x" * MAX_FRONT + b"\n---\n", "has no front matter"),
    "binary": (bytes(range(256)), "has no front matter"),
    "no-yaml": (front("name: [", "description: x"), "no YAML"),
    "colons": (front("name: x", "description: a: b: c"), "no YAML"),
    "twice": (front("name: x", "name: y", "description: z"), "no YAML"),
    "bomb": (front("a: &a [x,x,x,x,x,x,x,x,x,x]", *BOMB), "no YAML"),
    "deep": (front("name: x", "description: " + "[" * 5000), "no YAML"),
    "text": (front("only a text"), "says nothing"),
    "empty": (front(), "says nothing"),
    "number": (front("name: 7", "description: x"), "its name must be"),
    "long": (front("name: " + "x" * (MAX_NAME + 1), "description: x"), "its name must be"),
    "blank-name": (front("name: ' '", "description: x"), "its name must be"),
    "silent": (front("name: silent"), "has no description"),
    "blank": (front("name: x", "description: '  '"), "has no description"),
    "list": (front("name: x", "description: [a]"), "has no description"),
}  # fmt: skip


@pytest.mark.requirement("N31")
@pytest.mark.parametrize("name", BAD)
def test_one_that_is_wrong_is_told_and_the_others_count(places, name):
    text, why = BAD[name]
    wrong, _ = put(places.home, name, text), put(places.home, "right")
    found = find_skills(places)
    assert [skill.name for skill in found.skills] == ["right"]
    (mistake,) = found.mistakes
    assert mistake.startswith(f"{wrong}: ")
    assert why in mistake


def test_a_file_that_is_too_large_is_not_read(places):
    wrong = put(places.home, "large", front("name: large", "description: x"))
    os.truncate(wrong, MAX_BYTES * 10)
    (mistake,) = find_skills(places).mistakes
    assert mistake == f"{wrong}: is larger than 1 MiB"


def test_a_long_body_is_not_read_either(places):
    put(places.home, "long", front("name: long", "description: x") + b"\xff" * (MAX_BYTES // 2))
    assert find_skills(places).skills == (Skill("long", "x", "~/.claude/skills/long/SKILL.md"),)


@pytest.mark.requirement("N31")
def test_a_link_counts_inside_the_folder_that_is_trusted_alone(places, tmp_path):
    outside = put(tmp_path / "elsewhere", "out")
    put(places.workspace, "in", folder="tools")
    for name, target in (("out", outside.parent), ("in", Path(places.workspace, "tools/in"))):
        link = Path(places.workspace, CLAUDE, name)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    loop = Path(places.workspace, AGENTS)
    loop.parent.mkdir()
    loop.symlink_to(loop)
    found = find_skills(places)
    assert found.skills == (Skill("in", "Use it for in.", ".claude/skills/in/SKILL.md"),)
    loops, leads = found.mistakes
    assert loops.startswith(f"{loop}: cannot be read")
    assert leads == f"{places.workspace}/{CLAUDE}/out/SKILL.md: leads out of {places.workspace}"


def test_a_link_to_a_secret_is_none(places):
    secret = Path(places.home, ".ssh/id_rsa")
    secret.parent.mkdir()
    secret.write_bytes(front("name: key", "description: secret"))
    link = Path(places.home, CLAUDE, "key/SKILL.md")
    link.parent.mkdir(parents=True)
    link.symlink_to(secret)
    found = find_skills(places)
    assert found.skills == ()
    assert "may hold a secret" in found.mistakes[0]


def test_what_is_no_file_is_told_and_not_waited_for(places):
    pipe = Path(places.home, CLAUDE, "pipe/SKILL.md")
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    Path(places.home, CLAUDE, "folder/SKILL.md").mkdir(parents=True)
    Path(places.home, CLAUDE, "not-there/SKILL.md").parent.mkdir()
    Path(places.home, CLAUDE, "not-there/SKILL.md").symlink_to("gone")
    Path(places.home, CLAUDE, "README.md").write_text("no folder")
    found = find_skills(places)
    assert found.skills == ()
    told = [mistake.partition(": ")[2] for mistake in found.mistakes]
    assert told == [
        "cannot be read: Is a directory",
        "cannot be read: No such file or directory",
        "is no ordinary file",
    ]


@as_plain_user
def test_what_may_not_be_read_is_told(places):
    shut = put(places.home, "shut")
    shut.chmod(0)
    put(places.workspace, "right")
    closed = put(places.workspace, "closed", folder=AGENTS).parents[1]
    closed.chmod(0)
    try:
        found = find_skills(places)
    finally:
        closed.chmod(0o700)
    assert [skill.name for skill in found.skills] == ["right"]
    assert found.mistakes == (
        f"{closed}: cannot be read: Permission denied",
        f"{shut}: cannot be read: Permission denied",
    )


@pytest.mark.requirement("N31")
def test_of_two_with_one_name_the_first_counts(places):
    put(places.home, "same")
    put(places.workspace, "same")
    second = put(places.workspace, "other", front("name: same", "description: x"), ".codex/skills")
    found = find_skills(places)
    assert found.skills == (Skill("same", "Use it for same.", ".claude/skills/same/SKILL.md"),)
    assert found.mistakes == (
        f"{second}: is the second of the name same: .claude/skills/same/SKILL.md counts",
        f"{places.home}/{CLAUDE}/same/SKILL.md: is the second of the name same:"
        " .claude/skills/same/SKILL.md counts",
    )


def test_the_same_skill_by_a_link_is_no_second_one(places):
    put(places.workspace, "same", folder=AGENTS)
    Path(places.workspace, ".claude").mkdir()
    Path(places.workspace, CLAUDE).symlink_to("../.agents/skills")
    found = find_skills(places)
    assert [skill.path for skill in found.skills] == [".agents/skills/same/SKILL.md"]
    assert found.mistakes == ()


@pytest.mark.requirement("N31")
def test_nothing_hides_in_what_is_told(places):
    sly = "name: a\u202eb\u200bc", 'description: "one\\ntwo\\e[2J \U000e0041 three\u2066"'
    put(places.home, "sly", front(*sly))
    put(places.home, "bidi\u202e")
    found = find_skills(places)
    (skill,) = found.skills
    assert skill.name == "a\\u202eb\\u200bc"
    assert skill.description == "one two\\x1b[2J \\U000e0041 three\\u2066"
    (mistake,) = found.mistakes
    assert mistake == (
        f"{places.home}/{CLAUDE}/bidi\\u202e/SKILL.md: the name of its folder has characters that"
        " cannot be shown"
    )


def test_a_folder_without_a_name_in_utf8_is_told(places):
    folder = os.path.join(os.fsencode(places.home), CLAUDE.encode(), b"\xff")  # noqa: PTH118
    os.makedirs(folder)  # noqa: PTH103 - bytes
    Path(os.fsdecode(folder), "SKILL.md").write_bytes(front("name: x", "description: y"))
    found = find_skills(places)
    assert found.skills == ()
    found.mistakes[0].encode()


@pytest.mark.requirement("N31")
def test_of_a_thousand_a_bounded_number_counts(places):
    for number in range(MAX_SKILLS + 3):
        put(places.home, f"s{number:04}")
    found = find_skills(places)
    assert [skill.name for skill in found.skills] == [f"s{n:04}" for n in range(MAX_SKILLS)]
    assert found.mistakes == (
        f"{places.home}/{CLAUDE}: has {MAX_SKILLS + 3} skills: the last 3 by name do not count",
    )


def test_of_a_folder_with_much_else_a_part_is_looked_at(places):
    folder = Path(places.home, CLAUDE)
    folder.mkdir(parents=True)
    for number in range(MAX_ENTRIES + 1):
        os.mknod(folder / f"{number}")
    (mistake,) = find_skills(places).mistakes
    assert "more than 5,000 entries" in mistake


def test_a_long_description_is_cut_and_a_name_may_be_left_out(places):
    put(places.home, "long", front("description: " + "word " * 200))
    (skill,) = find_skills(places).skills
    assert skill.name == "long"
    assert len(skill.description) == MAX_DESCRIPTION + 1
    assert skill.description.endswith("…")


def test_one_that_no_model_is_to_use_is_left_out(places):
    put(places.home, "x", front("name: x", "description: y", "disable-model-invocation: true"))
    assert find_skills(places) == FoundSkills()


@given(st.binary(max_size=400), st.booleans())
def test_whatever_a_file_holds_is_told_or_refused(tmp_path_factory, data, has_front):
    home = tmp_path_factory.mktemp("home")
    put(home, "x", b"---\n" + data + b"\n---\n" if has_front else data)
    places = SkillPlaces(workspace=str(home / "none"), home=str(home), trusted=True)
    found = find_skills(places)
    assert len(found.skills) + len(found.mistakes) <= 1
    for text in (*found.mistakes, *(s.description for s in found.skills)):
        assert "\x1b" not in text
        text.encode()
