"""Only a program that loads nothing of the repository is safe for printing its version."""

from __future__ import annotations

import pytest
from prsm_policy.safe.checks import VERSIONED

from plugins.prsm_policy.tests.judging import decide
from prsm_core.policies.tables import word_set

LOADS = word_set(
    "yarn jest webpack nest tox flake8 mvn gradle eslint prettier ng nx gulp grunt vite rollup"
    " ember bundle rake rails pnpm corepack poetry pdm hatch bazel hg ansible pylint mocha composer"
)


@pytest.mark.requirement("E23")
@pytest.mark.parametrize("trusted", [True, False])
def test_a_program_that_loads_code_of_the_repository_is_asked_about(trusted):
    assert not VERSIONED & LOADS
    for name in sorted(LOADS):
        # In a workspace that is trusted `flake8 -v` is a check of the project.
        for option in ["--version"] if trusted else ["--version", "-v", "-V", "version", "--help"]:
            assert decide(f"{name} {option}", trusted=trusted) == "ask", name


@pytest.mark.parametrize(
    "command", ["git --version", "gcc --version", "python3 -V", "ls --version"]
)
def test_a_program_that_loads_nothing_is_safe_anywhere(command):
    assert decide(command, trusted=False) == "allow"


@pytest.mark.requirement("E23")
@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("cargo --version", "rust-toolchain.toml"),
        ("rustc -V", "rust-toolchain"),
        ("go version", "go.mod"),
        ("go env GOPATH", "go.work"),
        ("dotnet --version", "global.json"),
        ("python --version", ".tool-versions"),
        ("node -v", "mise.toml"),
    ],
)
def test_a_file_that_chooses_which_program_starts_is_asked_about_unless_trusted(
    tmp_path, command, name
):
    (tmp_path / "a/b").mkdir(parents=True)
    assert decide(command, tmp_path, trusted=False) == "allow"
    (tmp_path / "a" / name).write_text("x\n")
    assert decide(command, tmp_path, trusted=False) == "allow"
    assert decide(f"cd a/b && {command}", tmp_path, trusted=False) == "ask"
    assert decide(command, tmp_path, trusted=False, cwd="a/b") == "ask"
    assert decide(command, tmp_path, trusted=True, cwd="a/b") == "allow"
