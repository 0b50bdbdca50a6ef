"""Settings that are well formed and cannot have their effect here: they name what is not there."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from prsm_core.cli.checkup.finding import warning
from prsm_core.config.explain import nearest
from prsm_core.domain.tools import NATIVE_TOOLS, ORCHESTRATION_TOOLS
from prsm_core.engine.spawn.plan import default_cwd
from prsm_core.errors import ConfigError
from prsm_core.shell import read_script
from prsm_core.shell.tables import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prsm_core.cli.checkup.finding import Finding
    from prsm_core.config import Paths, Settings
    from prsm_core.config.document import KeyPath
    from prsm_core.config.schema import McpServerSettings

TOOLS = NATIVE_TOOLS | ORCHESTRATION_TOOLS
# What bash itself runs.
BUILTINS = word_set(
    ". : [ alias bg break builtin cd command continue declare dirs echo enable eval exec exit"
    " export false fg getopts hash help history jobs kill let local logout mapfile popd printf"
    " pushd pwd read readarray readonly return set shift shopt source suspend test times trap"
    " true type typeset ulimit umask unalias unset wait"
)


def check_values(settings: Settings, paths: Paths) -> Iterator[Finding]:
    """Yield a warning for each value that names what is not there."""
    for path, problem in find_mistakes(settings, str(paths.workspace)):
        where = settings.place_of(path)
        yield warning("config", f"{where}: {problem}" if where else problem, "correct it there")


def find_mistakes(settings: Settings, workspace: str) -> Iterator[tuple[KeyPath, str]]:
    """Yield the key and what is wrong with its value."""
    try:
        default_cwd(settings, workspace)
    except ConfigError as error:
        yield ("defaults", "cwd"), error.message
    for name, gate in settings.gates.items():
        for program in _missing_programs(gate.command):
            key = ("gates", name, "command")
            yield key, f"gates.{name} runs {program}, which is not on the PATH"
    yield from _servers(settings.mcp_servers, ("mcp_servers",))
    yield from _tools(settings.permissions.tools, ("permissions", "tools"))
    for name, expert in settings.experts.items():
        yield from _servers(expert.mcp_servers, ("experts", name, "mcp_servers"))
        yield from _tools(expert.tools or (), ("experts", name, "tools"))


def _missing_programs(command: str) -> Iterator[str]:
    """Yield programs that a command names, and that are neither bash's, its own nor installed.

    Of a path nothing is said: the command may go to another folder first.
    """
    script = read_script(command)
    for program in dict.fromkeys(each.texts[0] for each in script.commands if each.name):
        is_known = program in BUILTINS or program in script.functions or "/" in program
        if not is_known and shutil.which(program) is None:
            yield program


def _servers(
    servers: Mapping[str, McpServerSettings], path: KeyPath
) -> Iterator[tuple[KeyPath, str]]:
    for name, server in servers.items():
        search = server.env.get("PATH", os.environ.get("PATH"))
        if server.command is not None and shutil.which(server.command, path=search) is None:
            key = (*path, name, "command")
            yield key, f"MCP server {name} runs {server.command}, which cannot be found"


def _tools(
    names: Mapping[str, object] | tuple[str, ...], path: KeyPath
) -> Iterator[tuple[KeyPath, str]]:
    """Yield names that are no tool of PRSM's and much like one; others may be a vendor's."""
    for index, name in enumerate(names):
        meant = "" if name in TOOLS or name.startswith("mcp__") else nearest(name, TOOLS)
        if meant:
            key = index if isinstance(names, tuple) else name
            yield (*path, key), f"{name} is no tool{meant}"
