"""`prsm plugins`: what is installed and what became of it; `new` writes the package of one.

Its files come from the folder `skeletons`: those in `common` are every plugin's, the others are of
the kind that their folder names. `$name` and the like stand for what the author chose.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import click

from prsm_core.cli.callers import agents_may
from prsm_core.cli.options import json_option, workspace_option
from prsm_core.distributions import CORE
from prsm_core.errors import PluginError
from prsm_core.interfaces.records import check_name
from prsm_core.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable

    from prsm_core.cli.launch import Launch
    from prsm_core.plugins import PluginManager


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of plugin: what it is called, and what the skeleton of it does."""

    words: str
    summary: str
    usage: str
    needs: tuple[str, ...] = ()  # what it asks for beside the core


KINDS: Mapping[str, Kind] = {
    "provider": Kind(
        words="provider",
        summary="Runs agents on a server that speaks the Responses API.",
        usage="Then `prsm run --provider $name` uses it; `providers.$name.base_url` is the server.",
    ),
    "check": Kind(
        words="permission check",
        summary="Denies what only people may do.",
        usage="`checks.$name.forbidden` says what; whoever relies on the check lists `$name` in "
        "`permissions.required`.",
        needs=("msgspec>=0.21,<0.23",),
    ),
    "scorer": Kind(
        words="model scorer",
        summary="Prefers cheap models for simple tasks.",
        usage="Every recommendation of a model asks it; `prsm models rank` shows what it does.",
    ),
    "sink": Kind(
        words="event sink",
        summary="Writes down how runs ended and what was denied.",
        usage="It writes to the file that `sinks.$name.path` of the configuration names.",
        needs=("msgspec>=0.21,<0.23",),
    ),
    "frontend": Kind(
        words="frontend",
        summary="Shows what agents say, one after the other.",
        usage="Then `prsm run --ui $name` uses it.",
    ),
    "tool": Kind(
        words="tool",
        summary="Tells agents what words mean here.",
        usage="Agents that `prsm run --label $name=yes` starts have it; `tools.$name.words` of the "
        "configuration is what it knows.",
        needs=("msgspec>=0.21,<0.23",),
    ),
}


@click.group(short_help="List the plugins, or write a new one.", invoke_without_command=True)
@workspace_option
@json_option
@click.pass_context
@agents_may
def plugins(ctx: click.Context, workspace: str, as_json: bool) -> int:
    """List the plugins: active, disabled, broken, slow or incompatible, and why.

    Below them stands each record that they contribute: providers, permission checks with their
    priority and whether they hold in the mode bypass, model scorers, event sinks, frontends, tools.

    Exits with 1 if any is broken, slow or incompatible.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    from prsm_core.cli.plugin_rows import plugin_values, print_plugins
    from prsm_core.cli.setup import load_setup

    manager = load_setup(ctx.obj, workspace).plugins
    if as_json:
        click.echo(json.dumps(plugin_values(manager), indent=2))
    else:
        print_plugins(manager)
    return 1 if manager.quarantined else 0


@plugins.command(short_help="Write the package of a new plugin.")
@click.argument("kind", type=click.Choice(tuple(KINDS)), metavar=f"[{'|'.join(KINDS)}]")
@click.argument("name")
@click.option(
    "--dir",
    "parent",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    show_default=True,
    metavar="DIR",
    help="Where the folder of the package goes.",
)
@click.pass_obj
@agents_may
def new(launch: Launch, kind: str, name: str, parent: Path) -> None:
    """Write the package of a plugin that passes the contract of its kind as it stands.

    It is a folder `prsm-NAME` with pyproject.toml, README.md, a module of a few lines and its
    tests; change it from there. NAME is what `prsm plugins` and the configuration call it. Nothing
    that is there already is written over.
    """
    import os

    from prsm_core.builtin import BUILTINS
    from prsm_core.plugins import PluginManager

    enabled = launch.load_plugins
    check_free(
        kind, name, PluginManager.load(environ=os.environ, builtins=BUILTINS, enabled=enabled)
    )
    folder = write_skeleton(kind, name, parent)
    python = shlex.quote(_shown(Path(sys.executable)))
    place = shlex.quote(_shown(folder))
    click.echo(f"{place} is written: it passes the contract of its kind. Try it:", err=True)
    click.echo(f"{python} -m pip install -e {shlex.quote(f'{_shown(folder)}[test]')}")
    click.echo(f"{python} -m pytest {place}")
    click.echo(f"{shlex.quote(_own_program())} plugins")


def _own_program() -> str:
    """Return what a person types for the `prsm` of this environment."""
    import shutil

    own = Path(sys.executable).with_name("prsm")
    found = shutil.which("prsm")
    is_found = found is not None and Path(found).absolute() == own.absolute()
    return "prsm" if is_found or not own.exists() else _shown(own)


def _shown(path: Path) -> str:
    """Return a path as it is written here: relative where it lies below the current folder."""
    here, path = Path.cwd(), path.absolute()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def check_free(kind: str, name: str, installed: PluginManager) -> None:
    """Raise PluginError where a plugin of this name could not be loaded beside those there are."""
    from prsm_core.plugins.records import WORDS  # with all of what plugins are

    words = KINDS[kind].words
    for record in installed.records:
        alike = (spec for spec in installed.contributions(record) if WORDS[type(spec)] == words)
        if name in {record.name, *(spec.name for spec in alike)}:
            raise PluginError(
                f"{name!r} is taken: {record} has a {words} or a plugin of that name",
                hint="take another name: of two plugins that have the same one neither is loaded",
            )


def write_skeleton(kind: str, name: str, parent: Path) -> Path:
    """Write the package of a plugin to a new folder in `parent`; return that folder.

    Args:
        kind: One of KINDS.
        name: The name of the plugin and of its record.
        parent: A folder; made where it is not there.

    Raises:
        PluginError: The name is none, or there is something at the place already.
        OSError: The files cannot be written.
    """
    _check(name)
    values = _values(kind, name)
    folder = parent / values["distribution"]
    if folder.is_symlink() or folder.exists():
        raise PluginError(
            f"{folder} exists already, and nothing was written",
            hint="take another name, or another folder by --dir",
        )
    texts = {path: Template(text).substitute(values) for path, text in _files(kind, values)}
    for path, text in texts.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return folder


def _check(name: str) -> None:
    try:
        check_name("plugin", name)
    except ValueError as error:
        raise PluginError(str(error), hint="such as `acme` or `acme-audit`") from error
    if not name[-1].isalnum() or re.search(r"[-_]{2}", name) or f"prsm-{name}" == CORE:
        raise PluginError(
            f"plugin: prsm-{name} cannot be the name of its package",
            hint="take a name of words with single - or _ between them, such as `acme-audit`",
        )


def _values(kind: str, name: str) -> dict[str, str]:
    words = name.replace("-", "_").split("_")
    major, minor, _ = __version__.split(".")
    core = f"{CORE}>={major}.{minor},<{major}.{int(minor) + 1}"
    camel = "".join(word.capitalize() for word in words)
    found = KINDS[kind]
    values = {
        "name": name,
        "kind": kind,
        "words": found.words,
        "distribution": f"prsm-{name.replace('_', '-')}",
        "package": f"prsm_{'_'.join(words)}",
        "class": f"{camel}{kind.capitalize()}",
        "title": camel,
        "summary": found.summary,
        "dependencies": ", ".join(f'"{requirement}"' for requirement in (core, *found.needs)),
    }
    return {**values, "usage": Template(found.usage).substitute(values)}


def _files(kind: str, values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    package = values["package"]
    skeletons = files("prsm_core.cli") / "skeletons"
    for folder, places in (
        ("common", {"pyproject.toml": "", "README.md": "", "__init__.py": f"{package}/"}),
        (kind, {"plugin.py": f"{package}/", f"{kind}.py": f"{package}/"}),
    ):
        for file, place in places.items():
            yield f"{place}{file}", _text(skeletons / folder / f"{file}.in")
    yield f"tests/test_{package}.py", _text(skeletons / kind / "test.py.in")
    yield f"{package}/py.typed", ""


def _text(skeleton: Traversable) -> str:
    return skeleton.read_text(encoding="utf-8")
