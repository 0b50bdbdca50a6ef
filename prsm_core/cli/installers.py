"""What installs packages into the environment of the core, and where that is not for us to do.

An environment that a tool manages is changed by that tool: what is put into it otherwise is gone
with the tool's next upgrade.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
import sysconfig
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core.errors import ConfigError
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
    """What installs packages into the environment of this interpreter.

    Attributes:
        name: Of the program, for people.
        installs: Returns the command that installs packages.
        removes: Returns the command that takes away packages, by their names.
        env: What the command needs to find the environment.
    """

    name: str
    installs: Callable[[Sources], tuple[str, ...]]
    removes: Callable[[Sequence[str]], tuple[str, ...]]
    env: Mapping[str, str] = field(default_factory=dict)


def find_installer(sources: Sources) -> Installer:
    """Return what installs packages here: the tool that manages the environment, pip, or uv.

    Raises:
        ConfigError: there is none, or the environment is the system's, or cannot be written to,
            or lacks the core. It tells the line to type, where there is one.
    """
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
    """Return the words of the tool that manages an environment; None: it is nobody's."""
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
    """Return how uv remakes a tool: it is told all that belongs to it, each time."""
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
    """Yield the words that ask for an entry of a receipt. Raises ValueError for one of a new kind.

    One of a repository or an address is of a new kind too: it may hold a password.
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
    """Return the folder in which the core's own record is. Raises ConfigError where it is not."""
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
