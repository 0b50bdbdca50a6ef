"""Installs packages of this project beside the core, whole or not at all.

A managed environment is changed by its tool only: the tool's next upgrade drops anything else.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import shlex
import shutil
import sys
import sysconfig
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prsm_core.catalog.packages import (
    OWN_PACKAGES,
    PUBLISHED,
    OwnPackage,
    find_clone,
    find_own,
    folder_in,
    with_needs,
)
from prsm_core.cli.checkup.folders import format_size
from prsm_core.cli.logs import configure_logging
from prsm_core.domain.record import Record
from prsm_core.engine.processes.launcher import ProcessLauncher, install_child_watcher
from prsm_core.errors import ConfigError, ProcessError
from prsm_core.kit.clocks import SystemClock
from prsm_core.kit.places import own_folders
from prsm_core.kit.text import escape_exact, escape_prose
from prsm_core.loop.run import run_to_end
from prsm_core.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


CORE = "prsm-core"
SAFE_PATH = "-P"  # what lies in the current folder is no module of ours
_PIPX, _UV_TOOL = "pipx_metadata.json", "uv-receipt.toml"  # files in what these two manage
_EDITABLE = "--editable"

Sources = Mapping[str, tuple[str, ...]]
"""The words by which pip is told what to install, by package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installer:
    """The program that installs packages here. Its commands find the environment by `env`."""

    name: str
    installs: Callable[[Sources], tuple[str, ...]]
    removes: Callable[[Sequence[str]], tuple[str, ...]]
    env: Mapping[str, str] = field(default_factory=dict)


def find_installer(sources: Sources) -> Installer:
    """Return the environment's manager, pip, or uv. Raises ConfigError with a line to type."""
    prefix = Path(sys.prefix)
    if (prefix / _PIPX).is_file():
        found = _pipx(prefix)
    elif (prefix / _UV_TOOL).is_file():
        found = _uv_tool(prefix)
    else:
        return _plain()
    program = found.installs(sources)[0]
    if shutil.which(program) is None:
        words = [f"{name}={shlex.quote(value)}" for name, value in found.env.items()]
        line = " ".join((*words, shlex.join(found.installs(sources))))
        raise ConfigError(
            f"{found.name} manages the environment of {sys.executable}, and is not on the PATH",
            hint=f"where it is, type: {line}",
        )
    _check_core()
    return found


def managed_by(prefix: Path) -> tuple[str, ...] | None:
    """Return the command words of the tool that manages an environment, if any."""
    if (prefix / _PIPX).is_file():
        return ("pipx",)
    return ("uv", "tool") if (prefix / _UV_TOOL).is_file() else None


def _pipx(prefix: Path) -> Installer:
    head = ("pipx", "inject")

    def installs(sources: Sources) -> tuple[str, ...]:
        words = [word for given in sources.values() for word in given]
        flags = (_EDITABLE,) if _EDITABLE in words else ()
        return (*head, *flags, prefix.name, *(word for word in words if word != _EDITABLE))

    return Installer(
        name="pipx",
        installs=installs,
        removes=lambda names: ("pipx", "uninject", prefix.name, *names),
        env={"PIPX_HOME": str(prefix.parent.parent)} if prefix.parent.name == "venvs" else {},
    )


def _uv_tool(prefix: Path) -> Installer:
    """Return uv as installer. uv remakes a tool from all its requirements each time."""
    try:
        receipt = tomllib.loads((prefix / _UV_TOOL).read_text(encoding="utf-8"))["tool"]
        main, *others = receipt["requirements"]
        python = receipt.get("python")
        folders = {str(Path(point["install-path"]).parent) for point in receipt["entrypoints"]}
        mine = tuple(_of_receipt(main, is_main=True))
        rest = tuple(word for other in others for word in _of_receipt(other))
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigError(
            f"uv manages the environment of {sys.executable}, and its {_UV_TOOL} is not understood",
            hint="add the package as you installed the core: uv tool install … --with …",
        ) from error
    base = ("uv", "tool", "install", *(("--python", python) if python else ()), *mine, *rest)

    def installs(sources: Sources) -> tuple[str, ...]:
        return (*base, *(word for given in sources.values() for word in _with(given)))

    env = {"UV_TOOL_DIR": str(prefix.parent)}
    if len(folders) == 1:
        env["UV_TOOL_BIN_DIR"] = folders.pop()
    return Installer(name="uv", installs=installs, removes=lambda _: base, env=env)


def _with(given: Sequence[str]) -> tuple[str, ...]:
    *flags, what = given
    return ("--with-editable" if _EDITABLE in flags else "--with", what)


def _of_receipt(entry: Mapping[str, Any], *, is_main: bool = False) -> Iterator[str]:
    """Yield the words that ask for an entry of a receipt. Raises ValueError for an unknown kind.

    Repositories and addresses count as unknown: they may hold a password.
    """
    rest = dict(entry)
    name, extras = rest.pop("name"), rest.pop("extras", [])
    if "editable" in rest:
        yield "--editable" if is_main else "--with-editable"
        yield _plain_text(rest.pop("editable"))
    else:
        if not is_main:
            yield "--with"
        bracket = f"[{','.join(extras)}]" if extras else ""
        if "directory" in rest:
            yield _plain_text(rest.pop("directory"))
        else:
            yield f"{_plain_text(name)}{bracket}{rest.pop('specifier', '')}"
    if rest:
        raise ValueError(f"{name}: {', '.join(rest)}")


def _plain_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _plain() -> Installer:
    _check_environment()
    python = sys.executable
    if importlib.util.find_spec("pip") is not None:
        pip = (python, SAFE_PATH, "-m", "pip")
        quiet = ("--quiet", "--disable-pip-version-check", "--no-input")
        return Installer(
            name="pip",
            installs=lambda sources: (*pip, "install", *quiet, *_words(sources)),
            removes=lambda names: (*pip, "uninstall", *quiet, "--yes", *names),
        )
    if (uv := shutil.which("uv")) is not None:
        of_python = ("--python", python)
        return Installer(
            name="uv",
            installs=lambda sources: (uv, "pip", "install", *of_python, *_words(sources)),
            removes=lambda names: (uv, "pip", "uninstall", *of_python, *names),
        )
    has_own = importlib.util.find_spec("ensurepip") is not None
    line = f"{shlex.quote(python)} -m ensurepip"
    raise ConfigError(
        f"the environment of {python} has no pip, and no uv is on the PATH",
        hint=f"add one: {line}" if has_own else "install uv: https://docs.astral.sh/uv",
    )


def _words(sources: Sources) -> Iterator[str]:
    return (word for given in sources.values() for word in given)


def _check_environment() -> None:
    is_system = sys.prefix == sys.base_prefix
    if is_system and Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").exists():
        raise ConfigError(
            f"the system manages the packages of {sys.executable}",
            hint="install the core into an environment of its own: python3 -m venv .venv",
        )
    folder = _check_core()
    if not os.access(folder, os.W_OK):
        raise ConfigError(
            f"the core is in {folder}, to which this user may not write",
            hint="let the one who may install it type the same, or install the core into an "
            "environment of your own: python3 -m venv .venv",
        )


def _check_core() -> Path:
    """Return the folder with the core's own record. Raises ConfigError if there is none."""
    found = installed(CORE)
    if found != __version__:
        known = "not installed" if found is None else f"installed as {found}"
        raise ConfigError(
            f"{CORE} {__version__} runs here, and is {known}",
            hint="install it first, from its folder: "
            f"{shlex.join((sys.executable, '-m', 'pip', 'install', '-r', 'requirements.txt'))}",
        )
    return Path(str(distribution(CORE).locate_file("")))


def installed(name: str) -> str | None:
    """Return the version of a distribution as it is now; None if there is none."""
    importlib.invalidate_caches()
    try:
        return distribution(name).version
    except PackageNotFoundError:
        return None


_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
# Run in a process of its own: this one has looked for its plugins before.
_LOOK = """
import json, sys
from prsm_core.plugins import PluginManager
records = PluginManager.load(environ={}, builtins=()).records
print(json.dumps({record.name: [record.state.value, record.error] for record in records}))
"""


def install_package(name: str, *, debug: bool, with_cli: bool, prefix: str) -> int:
    """Install a package, and with `with_cli` the vendor's program; return the exit code."""
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
    """Return the words that tell an installer what to install, by package."""
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
    """Remove what this command added, however far it came."""
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
    """Run a program in this environment plus `env`; return its lines, which `show` prints."""
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


_MEANINGS = (
    "configuration",
    "data: ledgers, snapshots, trust",
    "state: locks, logs, vendors' homes",
    "worktrees of agents",
)


class Place(Record, frozen=True, kw_only=True):
    """A folder of PRSM's, and the bytes below it."""

    what: str
    path: Path
    size: int

    @property
    def row(self) -> tuple[str, str, str]:
        """The place as a row of a table."""
        return self.what, str(self.path), format_size(self.size)


def find_places() -> list[Place]:
    """Return the existing folders. A folder inside another one is counted only once."""
    config, data, state, trees, _ = own_folders(os.environ)
    folders = (config, data, state, trees)
    return [
        Place(what=what, path=path, size=_size(path, folders))
        for what, path in zip(_MEANINGS, folders, strict=True)
        if path.is_dir()
    ]


def removal_lines() -> list[str]:
    """Return the lines for a shell: first the folders, then the packages."""
    folders = [place.path for place in find_places()]
    outer = [path for path in folders if not any(one in path.parents for one in folders)]
    return [*(f"rm -rf -- {shlex.quote(str(path))}" for path in outer), _package_line()]


def _package_line() -> str:
    prefix = Path(sys.prefix)
    if (manager := managed_by(prefix)) is not None:
        return shlex.join((*manager, "uninstall", prefix.name))
    own = {CORE, *(package.distribution for package in OWN_PACKAGES.values())}
    names = sorted(own & {each.name for each in distributions()})
    return shlex.join((sys.executable, "-m", "pip", "uninstall", *names))


def _size(folder: Path, others: Sequence[Path]) -> int:
    total = 0
    for root, names, files in os.walk(folder):
        names[:] = [name for name in names if Path(root, name) not in others]
        total += sum(_file_size(Path(root, file)) for file in files)
    return total


def _file_size(path: Path) -> int:
    # Its owner may be at work.
    with suppress(OSError):
        return path.lstat().st_size
    return 0
