"""Checks of the person's environment: which variables reach no program of an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.cli.checkup.finding import ok
from prsm_core.kit.environment import must_be_named, not_passed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prsm_core.cli.checkup.finding import Finding


def check_environment(pass_env: Sequence[str], environ: Mapping[str, str]) -> Iterator[Finding]:
    """Name what is set and not passed on; values are told to nobody."""
    names = not_passed(environ, pass_env)
    if not names:
        yield ok("environment", "all that is set reaches shells, MCP servers and gates of agents")
        return
    text = (
        f"set, and not passed to shells, MCP servers and gates of agents: {', '.join(names)}; "
        "`pass_env` in the configuration passes on what it names"
    )
    if whole := [name for name in names if must_be_named(name, environ[name])]:
        text += f"; no pattern of it takes {', '.join(whole)}: name them in full"
    yield ok("environment", text)
