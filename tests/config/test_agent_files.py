"""Experts in markdown: what a file says, what it may not, and whose files count."""

from __future__ import annotations

import pytest

from prsm_core.domain.tools import NATIVE_TOOLS, READ_TOOLS
from prsm_core.errors import ConfigError

REVIEWER = """\
---
name: Security reviewer
description: Finds holes.
tools: Read, Grep
model: big
---

You look for holes.

- Name the line.
"""


def agents_of(place):
    return place.paths.workspace_dir / "agents"


def write(folder, name, text=REVIEWER):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.requirement("U20")
def test_an_agent_file_is_an_expert_with_the_text_as_its_prompt(place):
    write(agents_of(place), "security.md")
    expert = place.load().settings.expert_profiles()["security"]
    assert expert.name == "Security reviewer"
    assert expert.description == "Finds holes."
    assert expert.tools == {"Read", "Grep"}
    assert expert.model == "big"
    assert expert.system_prompt == "You look for holes.\n\n- Name the line."


def test_the_tools_may_be_a_list_and_nothing_but_the_prompt_is_needed(place):
    write(place.paths.user_agents, "a.md", "---\ntools: [Read, Bash]\n---\nDo it.\n")
    write(place.paths.user_agents, "b.md", "---\n---\nDo it.\n")
    experts = place.load().settings.expert_profiles()
    assert experts["a"].tools == {"Read", "Bash"}
    assert (experts["b"].name, experts["b"].system_prompt) == ("b", "Do it.")


def test_a_stronger_layer_changes_single_values_of_an_agent_file(place):
    write(place.paths.user_agents, "security.md")
    write(agents_of(place), "security.md", "---\nmodel: small\n---\nYou too.\n")
    place.workspace("experts: {security: {description: Ours.}}")
    expert = place.load().settings.expert_profiles()["security"]
    assert (expert.description, expert.model) == ("Ours.", "small")
    assert expert.system_prompt == "You too."
    assert expert.tools == {"Read", "Grep"}


@pytest.mark.requirement("U20")
def test_the_agent_files_of_an_untrusted_workspace_are_not_even_read(place):
    write(agents_of(place), "evil.md", "no agent file at all")
    loaded = place.load(trusted=False)
    assert loaded.settings.experts == {}
    assert "not trusted" in loaded.notices[0]


@pytest.mark.parametrize("link", ["agents", "agents/a.md"])
def test_agent_files_behind_a_link_are_refused(place, link):
    write(place.folder / "elsewhere", "a.md")
    path = place.paths.workspace_dir / link
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(place.folder / "elsewhere" / ("a.md" if link.endswith("md") else ""))
    with pytest.raises(ConfigError, match="must not be a link"):
        place.load()


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("", ":1", "has no front matter"),
        ("You are an expert.\n", ":1", "has no front matter"),
        ("---\nname: x\n", ":1", "has no front matter"),
        ("---\n- x\n---\nDo it.\n", ":2", "must be a mapping"),
        ("---\nname: x\n---\n \n", ":3", "no system prompt follows"),
        ("---\nname: x\nsystem_prompt: y\n---\nDo it.\n", ":3", "does not belong here"),
        ("---\nname: x\nname: y\n---\nDo it.\n", ":3", "stands twice"),
        ("---\nname: x\ncolour: red\n---\nDo it.\n", ":3", "colour"),
    ],
)
def test_a_file_that_is_no_agent_file_is_named_with_its_line(place, text, where, why):
    path = write(place.paths.user_agents, "wrong.md", text)
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert caught.value.message.startswith(f"{path}{where}")
    assert why in caught.value.message


def test_a_folder_that_cannot_be_read_is_an_error(place):
    place.paths.user_agents.write_text("no folder")
    with pytest.raises(ConfigError, match="agents: cannot be read"):
        place.load()


@pytest.mark.requirement("U20")
def test_an_agent_file_makes_a_worker_or_a_reviewer_by_its_role(place):
    write(agents_of(place), "tester.md", "---\nrole: worker\n---\nYou test.\n")
    write(agents_of(place), "strict.md", "---\nrole: reviewer\n---\nYou judge.\n")
    write(agents_of(place), "wise.md", "---\n---\nYou know.\n")
    profiles = place.load().settings.expert_profiles()
    roles = {name: profile.role.value for name, profile in profiles.items()}
    assert roles == {"tester": "worker", "strict": "reviewer", "wise": "expert"}
    assert profiles["tester"].tools == NATIVE_TOOLS
    assert profiles["strict"].tools == profiles["wise"].tools == READ_TOOLS


def test_a_role_that_agents_cannot_be_given_is_refused_with_its_line(place):
    path = write(agents_of(place), "boss.md", "---\nrole: master\n---\nYou lead.\n")
    with pytest.raises(ConfigError, match=rf"{path}:2: .*role"):
        place.load()
