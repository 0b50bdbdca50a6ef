"""Installs one of this project's packages into the environment of the core, whole or not at all."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prsm_core.catalog.packages import (
    OWN_PACKAGES,
    PUBLISHED,
    find_clone,
    find_own,
    folder_in,
    with_needs,
)
from prsm_core.cli.installers import SAFE_PATH, find_installer, installed
from prsm_core.cli.logs import configure_logging
from prsm_core.engine.processes.launcher import ProcessLauncher, install_child_watcher
from prsm_core.errors import ConfigError, ProcessError
from prsm_core.kit.clocks import SystemClock
from prsm_core.kit.text import escape_exact, escape_prose
from prsm_core.loop.run import run_to_end
from prsm_core.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core.catalog.packages import OwnPackage
    from prsm_core.cli.installers import Installer, Sources

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
# Run in a process of its own: this one has looked for its plugins before.
_LOOK = """
import json, sys
from prsm_core.plugins import PluginManager
records = PluginManager.load(environ={}, builtins=()).records
print(json.dumps({record.name: [record.state.value, record.error] for record in records}))
"""


def install_package(name: str, *, debug: bool, with_cli: bool, prefix: str) -> int:
    """Install a package, and with `with_cli` the vendor's program; return the exit code.

    Raises:
        ConfigError: it is not for this command to install.
        ProcessError: it could not be installed, and is not there.
    """
    configure_logging(debug=debug)
    package = _of_this_project(name)
    sources = sources_of(package, find_clone(), published=PUBLISHED)
    installer = find_installer(sources)
    install_child_watcher()
    run_to_end(_install(package, sources, installer))
    place = Path(prefix).expanduser().absolute() if with_cli and package.program else None
    if place is not None:
        run_to_end(_install_program(package, place))
    elif with_cli:
        click.echo(f"{package.distribution} needs no program that npm installs.")
    _tell_needs(package, place)
    return 0


def _of_this_project(name: str) -> OwnPackage:
    package = find_own(name)
    if package is not None:
        return package
    shown = escape_exact(name)
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{shown!r} is no name of a package", hint=_names())
    line = shlex.join((sys.executable, "-m", "pip", "install", name))
    raise ConfigError(
        f"{shown} is none of this project's packages, which alone are installed by this command",
        hint=f"{_names()}; if you know what the name leads to, and that it will run with all your "
        f"rights: {line}",
    )


def _names() -> str:
    return f"they are {', '.join(OWN_PACKAGES)}"


def sources_of(package: OwnPackage, clone: Path | None, *, published: bool) -> Sources:
    """Return the words by which an installer is told what to install, by package."""
    if clone is None:
        if not published:
            raise ConfigError(
                f"{package.distribution} is on no index yet, and the core was not installed from a "
                "clone of its repository",
                hint="clone the repository and run there: "
                f"python3 -m venv .venv && .venv/bin/pip install -r requirements.txt && "
                f".venv/bin/prsm install {package.name}",
            )
        packages = with_needs(package)
        return {one.distribution: (f"{one.distribution}=={__version__}",) for one in packages}
    found = {one.distribution: folder_in(clone, one) for one in with_needs(package)}
    missing = [name for name, folder in found.items() if folder is None]
    if missing:
        raise ConfigError(
            f"the clone at {clone} has no {', '.join(missing)}",
            hint=f"bring it up to date: git -C {shlex.quote(str(clone))} pull",
        )
    return {name: ("--editable", str(folder)) for name, folder in found.items()}


async def _install(package: OwnPackage, sources: Sources, installer: Installer) -> None:
    new = [name for name in sources if installed(name) is None]
    if not new and installed(package.distribution) == __version__:
        click.echo(f"{package.distribution} {__version__} is installed already, in {sys.prefix}")
        return
    what = ", ".join(sources)
    click.echo(
        f"{installer.name} installs {what}; what it needs may take a while to come", err=True
    )
    async with ProcessLauncher(SystemClock()) as launcher:
        done = False
        try:
            await _run(launcher, installer.installs(sources), installer.name, env=installer.env)
            await _check_loads(launcher, package)
            done = True
        finally:
            if not done:
                await asyncio.shield(_remove(launcher, installer, new))
    click.echo(
        f"{package.distribution} {__version__} is installed beside the core, in {sys.prefix}"
    )


async def _check_loads(launcher: ProcessLauncher, package: OwnPackage) -> None:
    out = await _run(launcher, (sys.executable, SAFE_PATH, "-c", _LOOK), "prsm", show=False)
    state, error = (
        json.loads(out[-1]).get(package.name, ["absent", None]) if out else ("absent", "")
    )
    if state != "active":
        raise ProcessError(
            f"{package.distribution} was installed and does not load: {error or state}",
            hint="it was taken away again; `prsm doctor` looks at the rest",
        )


async def _remove(launcher: ProcessLauncher, installer: Installer, names: Sequence[str]) -> None:
    """Take away what this command has added, however far it came."""
    left = [name for name in names if installed(name) is not None]
    if left:
        await _run(launcher, installer.removes(left), installer.name, env=installer.env)


async def _run(
    launcher: ProcessLauncher,
    argv: Sequence[str],
    name: str,
    *,
    show: bool = True,
    env: Mapping[str, str] | None = None,
) -> Sequence[str]:
    """Run a program with the environment of this one and `env`; return its lines.

    With `show` stderr shows them as they come.

    Raises:
        ProcessError: it failed.
    """
    process = await launcher.start(argv, name=name, env={**os.environ, **(env or {})})
    process.close_stdin()
    lines = []
    try:
        async for line in process.lines():
            lines.append(line.decode(errors="replace"))
            if show:
                click.echo(escape_prose(lines[-1]), err=True)
        code = await process.wait()
    finally:
        await process.stop()
    if code != 0:
        said = escape_prose(process.stderr_tail.strip())
        if said:
            click.echo(said, err=True)
        raise ProcessError(
            f"{name} failed with exit code {code}: {shlex.join(argv)}",
            hint="nothing was installed; see above what it says",
        )
    return lines


async def _install_program(package: OwnPackage, prefix: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise ProcessError(
            f"npm is not installed, which installs {package.program}",
            hint="install Node.js, which brings it: https://nodejs.org",
        )
    argv = (npm, "install", "--global", "--prefix", str(prefix), str(package.npm))
    program = prefix / "bin" / str(package.program)
    async with ProcessLauncher(SystemClock()) as launcher:
        await _run(launcher, argv, "npm")
        told = await _run(launcher, (str(program), "--version"), str(package.program), show=False)
    click.echo(f"{program} is {escape_exact(' '.join(told))}")


def _tell_needs(package: OwnPackage, prefix: Path | None) -> None:
    if package.program is None:
        click.echo(f"Next: {package.login}.")
        return
    program = package.program if prefix is None else str(prefix / "bin" / package.program)
    found = shutil.which(package.program)
    if found is not None and (prefix is None or Path(found) == Path(program)):
        click.echo(f"It runs {found}. Next: {package.login}.")
        return
    place = f"put its folder on your PATH, or set providers.{package.name}.command"
    if prefix is not None:
        click.echo(f"So that it is found, {place} to {program}. Next: {package.login}.")
        return
    click.echo(
        f"It runs the program `{package.program}`, which is not on your PATH. If it is not there: "
        f"`prsm install {package.name} --cli`, or npm install --global "
        f"{shlex.quote(str(package.npm))}. If it is: {place}. Next: {package.login}."
    )
