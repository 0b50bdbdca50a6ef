"""The documents of the repository as what they promise: blocks of code and command lines."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from prsm_core.cli.group import cli
from tests.sources import PLUGINS, ROOT, where

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHELL = {"console", "sh", "bash"}
UNCHECKED = {"text", "mermaid"}  # what is not run must say so
TUTORIALS = tuple(sorted((ROOT / "docs").glob("tutorial-*.md")))

_FENCE = re.compile(r"( *)(`{3,})([^`\n]*)\n(.*?)^\1\2 *$", flags=re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block: where it begins, its language, its text without the indent of the fence.

    A block whose fence names a file after the language is that file of a project which the
    document builds; it works together with the others only.
    """

    place: str
    language: str
    text: str
    file: str = ""


def documents() -> list[Path]:
    """Return every document a reader may follow."""
    files = [ROOT / "README.md", *(plugin / "README.md" for plugin in PLUGINS)]
    return files + sorted((ROOT / "docs").rglob("*.md"))


def blocks_of(text: str, path: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a document."""
    for fence in _FENCE.finditer(text):
        indent, _, info, body = fence.groups()
        line = text.count("\n", 0, fence.start()) + 1
        words = info.split()
        plain = re.sub(rf"^{indent}", "", body, flags=re.MULTILINE)
        language, file = (*words, "", "")[:2]
        yield Block(f"{where(path)}:{line}", language, plain, file)


def blocks(*languages: str) -> list[Block]:
    """Return the blocks of all documents in these languages; without any, all blocks."""
    return [
        block
        for path in documents()
        for block in blocks_of(path.read_text(encoding="utf-8"), path)
        if not languages or block.language in languages
    ]


def command_lines(text: str) -> list[str]:
    """Return the commands of a shell block: what follows a prompt, or every line if none has."""
    lines = text.replace("\\\n", " ").splitlines()
    prompted = [line[2:] for line in lines if line.startswith("$ ")]
    return prompted or [line for line in lines if line.strip() and not line.startswith("#")]


def prsm_calls(line: str) -> Iterator[list[str]]:
    """Yield the arguments of each call of prsm in a command line."""
    tokens = shlex.shlex(line, posix=True, punctuation_chars=True)
    tokens.whitespace_split = True
    segment: list[str] = []
    for token in [*tokens, ";"]:
        if set(token) <= set("();<>|&"):
            words = list(segment)
            while words and re.match(r"\w+=", words[0]):
                words.pop(0)
            if words and PurePath(words[0]).name == "prsm":
                yield words[1:]
            segment = []
        else:
            segment.append(token)


def parse_call(arguments: list[str]) -> None:
    """Parse a call of prsm without running it; raise click.UsageError for what does not exist."""
    command: click.Command = cli
    context = click.Context(cli, info_name="prsm", **cli.context_settings)
    while True:
        values, rest, given = command.make_parser(context).parse_args(list(arguments))
        if any(parameter.is_eager for parameter in given):  # --help, --version
            return
        if not isinstance(command, click.Group):
            break
        if not rest:
            return
        found = command.get_command(context, rest[0])
        if found is None:
            raise click.UsageError(f"no such command: {rest[0]}", ctx=context)
        settings = found.context_settings
        context = click.Context(found, info_name=rest[0], parent=context, **settings)
        command, arguments = found, rest[1:]
    if rest:
        raise click.UsageError(f"unexpected argument: {rest[0]}", ctx=context)
    for parameter in command.params:
        _check(parameter, values.get(parameter.name or ""), context)


def _check(parameter: click.Parameter, value: Any, context: click.Context) -> None:
    """Check a value as far as that does not depend on the machine: files need not exist."""
    given = isinstance(value, str | tuple | list) and len(value) > 0
    if parameter.required and not given:
        raise click.MissingParameter(ctx=context, param=parameter)
    if given and not isinstance(parameter.type, click.Path | click.File):
        parameter.type_cast_value(context, value)
