"""What `prsm providers --json` says where some of the CLIs are installed and others are not.

Each provider is there in one of two worlds and missing in the other. The CLIs that are there are
scripts that know their version; tests/live has the real ones.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass

import pytest
import yaml

MAIN = "import sys; from prsm_core.cli import main; sys.exit(main())"
KEY = {"api_key_env": "LOOPBACK_KEY"}
VERSIONS = {"codex": "0.169.0", "claude": "2.1.330", "gemini": "0.61.0"}
CODEX = "Install it with `npm install -g @openai/codex`, or set `command`."
CLAUDE = "Install it with `pip install claude-agent-sdk`, or set `command`."
GEMINI = "Install it with `npm install -g @google/gemini-cli`, or set `command`."


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a provider's row says.

    cli: What it needs, and lacks in the other world.
    hint: What it says then.
    version: What it says where it is there.
    enforcement: What it says in both.
    """

    cli: str
    hint: str
    version: str
    enforcement: str


PROVIDERS = {
    "codex": Expected(cli="codex", hint=CODEX, version=VERSIONS["codex"], enforcement="pre_tool"),
    "gemini": Expected(
        cli="gemini", hint=GEMINI, version=VERSIONS["gemini"], enforcement="approval"
    ),
    "minimax": Expected(
        cli="codex", hint=CODEX, version="2.1.330, 0.169.0", enforcement="pre_tool"
    ),
    "claude": Expected(
        cli="claude", hint=CLAUDE, version=VERSIONS["claude"], enforcement="pre_tool"
    ),
    "alibaba": Expected(
        cli="claude", hint=CLAUDE, version="2.1.330, 0.169.0", enforcement="pre_tool"
    ),
    "some-agent": Expected(
        cli="gemini",
        hint="Install it: npm install -g @google/gemini-cli.",
        version=VERSIONS["gemini"],
        enforcement="approval",
    ),
}
MISSING_FIRST = ("codex", "gemini", "minimax")  # the others are missing in the second world


def is_missing(name: str, world: int) -> bool:
    return (name in MISSING_FIRST) == (world == 0)


def sections(world, clis):
    """Return the configuration of every provider; what is missing is told nothing of its CLI.

    Claude's is told a program that does not exist, since the SDK brings the real one along.
    """
    nowhere = {"command": ["no-such-claude"]}
    there = {name: {"command": [path]} for name, path in clis.items()}

    def given(name, cli):
        missing = nowhere if cli == "claude" else {}
        return missing if is_missing(name, world) else there[cli]

    models = {"models": ["m1", "m2"], **KEY}
    acp = {} if is_missing("some-agent", world) else {"command": [clis["gemini"], "--acp"]}
    return {
        "codex": {**given("codex", "codex"), **models},
        "claude": {**given("claude", "claude"), **models},
        "gemini": {**given("gemini", "gemini"), **models},
        "minimax": {"claude": there["claude"], "codex": given("minimax", "codex"), **KEY},
        "alibaba": {"claude": given("alibaba", "claude"), "codex": there["codex"], **KEY},
        "some-agent": {"kind": "acp", "agent": "gemini", **acp, **models},
    }


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    """Return the rows of both worlds, by provider."""
    for name in ("acp", "alibaba", "claude", "codex", "gemini", "minimax"):
        if importlib.util.find_spec(f"prsm_{name}") is None:
            pytest.skip(f"prsm-{name} is not installed")
    folder = tmp_path_factory.mktemp("worlds")
    (folder / "path").mkdir()
    clis = {}
    for name, version in VERSIONS.items():
        program = folder / f"some-{name}"
        program.write_text(f"#!/bin/sh\necho {name} {version}\n")
        program.chmod(0o755)
        clis[name] = str(program)
    return [rows_of(world, clis, folder) for world in (0, 1)]


def rows_of(world, clis, folder):
    home = folder / f"home-{world}"
    home.mkdir()
    (home / "config.yaml").write_text(yaml.safe_dump({"providers": sections(world, clis)}))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PRSM")}
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "providers", "--json"],
        cwd=folder,
        env={
            **kept,
            "PRSM_HOME": str(home),
            "PATH": str(folder / "path"),
            "LOOPBACK_KEY": "none",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    # On a busy machine the import of a vendor's SDK takes seconds, of which the watch of the loop
    # tells: that is of the machine, not of what is missing.
    told = [line for line in done.stderr.splitlines() if "has blocked all agents for" not in line]
    assert (done.returncode, told) == (0, [])
    return {row["name"]: row for row in json.loads(done.stdout)}


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_provider_without_its_cli_says_what_is_missing_and_what_to_do(worlds, name):
    expected = PROVIDERS[name]
    [row] = [rows[name] for world, rows in enumerate(worlds) if is_missing(name, world)]
    program = "no-such-claude" if expected.cli == "claude" else expected.cli
    assert (row["available"], row["version"], row["models"]) == (False, None, [])
    assert row["reason"].endswith(f"cannot start {program}: No such file or directory")
    assert row["hint"] == expected.hint
    assert row["enforcement"] == expected.enforcement
    assert row["tested"]
    assert row["models_problem"] is None


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_provider_with_its_cli_does_not_suffer_from_what_others_lack(worlds, name):
    expected = PROVIDERS[name]
    [row] = [rows[name] for world, rows in enumerate(worlds) if not is_missing(name, world)]
    assert (row["available"], row["version"]) == (True, expected.version)
    assert (row["reason"], row["hint"], row["models_problem"]) == (None, None, None)
    assert row["enforcement"] == expected.enforcement
    assert row["logged_in"] is (None if name == "some-agent" else True)
    models = [model["id"] for model in row["models"]]
    if name in {"minimax", "alibaba"}:
        assert models  # those of the vendor
    else:
        assert models == ["m1", "m2"]


def test_every_provider_has_a_row_in_both_worlds(worlds):
    assert [set(rows) for rows in worlds] == [set(PROVIDERS)] * 2
