"""The person's own editor, for a text that grows."""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from prsm_core import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping


class Ends(NamedTuple):
    """What the editor reads and draws on, as descriptors; None: those of this process."""

    keyboard: int | None = None
    terminal: int | None = None


def editor_of(environ: Mapping[str, str]) -> list[str]:
    """Return the words of the editor that the environment names. Raises ConfigError for none."""
    named = environ.get("VISUAL") or environ.get("EDITOR") or ""
    try:
        words = shlex.split(named)
    except ValueError as error:
        raise ConfigError(f"the editor {named!r} cannot be read: {error}") from error
    if not words:
        raise ConfigError("no editor is named", hint="set EDITOR, such as EDITOR=nano")
    return words


async def edit(text: str, ends: Ends, environ: Mapping[str, str] = os.environ) -> str:
    """Return a text as the person has left it in the editor. Raises ConfigError where it fails."""
    words = editor_of(environ)
    with tempfile.TemporaryDirectory(prefix="prsm-") as folder:
        file = Path(folder) / "prompt.md"
        file.write_text(text, encoding="utf-8")
        try:
            process = await asyncio.create_subprocess_exec(
                *words, str(file), stdin=ends.keyboard, stdout=ends.terminal, stderr=ends.terminal
            )
        except OSError as error:
            raise ConfigError(f"the editor {words[0]} cannot be started: {error}") from error
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:  # the screen is closed
                process.kill()
                await process.wait()
        if code:
            raise ConfigError(f"the editor {words[0]} has failed, with code {code}")
        try:
            return file.read_text(encoding="utf-8").removesuffix("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"what {words[0]} has left cannot be read: {error}") from error
