"""Makes every check, one after the other; a check that cannot be made is a finding itself.

Checks of skills: which agents are told of, and what is wrong with the others.

Checks of the person's environment: which variables reach no program of an agent.
"""

from __future__ import annotations

import os
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.cli.checkup.engines import (
    check_ledger,
    check_left_boxes,
    check_processes,
    check_sessions,
)
from prsm_core.cli.checkup.finding import broken, ok, warning
from prsm_core.cli.checkup.folders import check_disk, check_folders
from prsm_core.cli.checkup.providers import check_names, check_providers
from prsm_core.cli.checkup.setup import check_setup
from prsm_core.cli.checkup.system import (
    check_answers,
    check_boxes,
    check_packages,
    check_python,
    check_sandbox,
    check_terminal,
)
from prsm_core.cli.checkup.values import check_values
from prsm_core.config import ledger_path, resolve_paths
from prsm_core.config.paths import SkillPlaces, user_home
from prsm_core.engine.context.skills import section, skills_in
from prsm_core.errors import PrsmError
from prsm_core.kit.environment import must_be_named, not_passed
from prsm_core.permissions import build_policy
from prsm_core.permissions.skills import find_skills
from prsm_core.policies.port import CommandPolicySpec
from prsm_core.workspace.identity import repo_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from prsm_core.cli.checkup.finding import Finding
    from prsm_core.cli.checkup.setup import CheckedSetup
    from prsm_core.config import Paths


def examine(workspace: str, *, load_plugins: bool) -> Iterator[Finding]:
    """Yield the findings of all checks; changes nothing and contacts nobody itself."""
    yield from _made("python", check_python)
    yield from _made("packages", check_packages)
    yield from _made("folders", _check_place, workspace, load_plugins)
    yield from _made("answers", check_answers)
    yield from _made("terminal", check_terminal, sys.stdout.encoding)


def _check_place(workspace: str, load_plugins: bool) -> Iterator[Finding]:
    """Check what the files of a workspace and of the user tell, once it is known where they are."""
    paths = resolve_paths(Path(workspace), os.environ)
    ledger = ledger_path(paths, repo_identity(Path(workspace)).key)
    setup = check_setup(paths, os.environ, load_plugins=load_plugins)
    yield from setup.findings
    policies = setup.plugins.collect(CommandPolicySpec)
    commands = build_policy(policies, setup.settings.permissions)
    yield from _made("config", check_values, setup.settings, paths, commands)
    if load_plugins:
        yield from _made("providers", check_providers, setup, paths, os.environ)
        yield from _made("names", check_names, setup, paths)
    else:
        yield warning("providers", "not looked at: --no-plugins", "leave that option out")
    yield from _made("skills", check_skills, setup, paths)
    yield from _made("environment", check_environment, setup.settings.pass_env, os.environ)
    yield from _made("folders", check_folders, paths, ledger, os.environ)
    yield from _made("disk", check_disk, paths)
    yield from _made("ledger", check_ledger, ledger)
    yield from _made("sessions", check_sessions, paths.state)
    yield from _made("processes", check_processes, paths.state)
    yield from _made("sandbox", check_sandbox, setup, paths)
    yield from _made("boxes", check_left_boxes, setup, paths.state)
    yield from _made("boxes", check_boxes, setup)


def _made(name: str, check: Callable[..., Iterable[Finding]], *args: object) -> Iterator[Finding]:
    try:
        yield from check(*args)
    except PrsmError as error:
        yield broken(name, error.message, error.hint or "see what the message names")
    except OSError as error:
        yield broken(name, f"cannot be checked: {error}", "see what the message names")


_MOST = 10  # mistakes that are told one by one


def check_skills(setup: CheckedSetup, paths: Paths) -> Iterator[Finding]:
    """Yield which skills agents are told of, and a line for each that does not count."""
    if not setup.settings.context.skills:
        yield ok("skills", "agents are told of none: context.skills is false")
        return
    places = SkillPlaces(workspace=str(paths.workspace), home=user_home(), trusted=setup.trusted)
    found = find_skills(places)
    for mistake in islice(found.mistakes, _MOST):
        yield warning("skills", mistake, "mend it or move it away; agents are not told of it")
    if (more := len(found.mistakes) - _MOST) > 0:
        yield warning("skills", f"{more} more do not count", "mend those above first")
    names = [skill.name for skill in skills_in(section(found.skills))]
    if (left_out := len(found.skills) - len(names)) > 0:
        text = f"there is no room to tell agents of {left_out} of {len(found.skills)} skills"
        yield warning("skills", text, "move away what nobody uses, or shorten descriptions")
    of = "" if setup.trusted else "; those of the workspace count once it is trusted"
    yield ok("skills", f"{', '.join(names) or 'there are none'}{of}")


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
