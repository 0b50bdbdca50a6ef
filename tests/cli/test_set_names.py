"""Wrong names of models in the configuration, told by runs and by the doctor, with their place."""

from __future__ import annotations

import json

import pytest

from tests.cli.test_model_flag import asked, providers

__all__ = ["providers"]  # a fixture: two providers, of which one lists its models

CONFIG = """\
defaults:
  provider: lister
  fallbacks:
    - lister/small
    - lister/smal
  peer_models: [lister, mute/anything, listr]
"""
AGENT = """\
---
description: judges
model: lister/big-mdel
---
You judge.
"""


@pytest.fixture
def folder(workspace, tmp_path):
    """The user's own configuration, with an agent's file."""
    folder = tmp_path / "home"
    (folder / "agents").mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(CONFIG)
    (folder / "agents" / "critic.md").write_text(AGENT)
    return folder


def wrong(folder):
    """Return place, mistake and nearest name of each wrong name."""
    return [
        (f"{folder}/config.yaml:5: defaults.fallbacks[1]", "no model 'smal'", "lister/small"),
        (f"{folder}/config.yaml:6: defaults.peer_models[2]", "no model 'listr'", "lister"),
        (
            f"{folder}/agents/critic.md:3: experts.critic.model",
            "no model 'big-mdel'",
            "lister/big-model",
        ),
    ]


UNKNOWN = "defaults.peer_models[1]: whether provider mute has a model 'anything' is not known"


@pytest.mark.requirement("E64", "U18")
def test_a_run_tells_where_a_wrong_name_stands_and_goes_on(prsm_process, folder):
    """What no provider need be asked about is told first; the doctor waits for their lists."""
    done = prsm_process("run", "say hello")
    assert (done.code, done.out) == (0, "echo: say hello\n"), done.err
    lines = done.err.splitlines()
    starts = next(number for number, line in enumerate(lines) if line.startswith("master ("))
    [(place, what, nearest)] = [one for one in wrong(folder) if "'listr'" in one[1]]
    [line] = [line for line in lines[:starts] if place in line]
    assert line.startswith("warning: ")
    assert what in line
    assert nearest in line


@pytest.mark.requirement("E64", "U18")
def test_the_doctor_tells_the_same(prsm_process, folder):
    done = prsm_process("doctor", "--json")
    found = [row for row in json.loads(done.out) if row["check"] == "names"]
    told = {row["message"]: row for row in found}
    for place, what, nearest in wrong(folder):
        [row] = [row for text, row in told.items() if text.startswith(f"{place}: ")]
        assert row["status"] == "warning"
        assert what in row["message"]
        assert nearest in row["cure"]
    [row] = [row for text, row in told.items() if UNKNOWN in text]
    assert row["status"] == "ok"
    assert asked() == ["asked"], "once"


def test_the_doctor_says_that_all_names_are_right(prsm_process, folder):
    (folder / "agents" / "critic.md").unlink()
    (folder / "config.yaml").write_text("defaults: {fallbacks: [lister/small], provider: lister}\n")
    found = json.loads(prsm_process("doctor", "--json").out)
    assert [row["status"] for row in found if row["check"] == "names"] == ["ok"]


def test_the_models_of_a_run_that_names_none_are_refused_with_their_place(prsm_process, folder):
    (folder / "config.yaml").write_text("defaults:\n  provider: lister\n  model: smal\n")
    done = prsm_process("run", "say hello")
    assert (done.code, done.out) == (2, ""), done.err
    assert f"{folder}/config.yaml:3: defaults.model: provider lister has no model" in done.err
