"""The plugin: one command policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import hookimpl
from prsm_core.policies import CommandPolicySpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# What a person who trusts a workspace is told, by class.
CHECK_CLASSES: Mapping[str, str] = {
    "tests": "runs the project's tests: pytest, unittest, npm test, jest, cargo test, go test, …",
    "linters": "runs the project's linters without fixes: ruff, eslint, clippy, go vet, …",
    "types": "runs the project's type checkers: mypy, pyright, tsc --noEmit, cargo check, …",
    "formatters": "runs formatters that change nothing: black --check, gofmt -l, …",
    "plans": "prints what make would run, which may run the shell to find out: make -n",
}


@hookimpl
def prsm_command_policies() -> Iterable[CommandPolicySpec]:
    """Contribute `bash`, which reads a command as bash does."""
    yield CommandPolicySpec(
        name="bash",
        summary="Reads bash, finds commands however they are nested, and knows what is safe.",
        factory="prsm_policy.policy:build",
        project_checks=CHECK_CLASSES,
    )
