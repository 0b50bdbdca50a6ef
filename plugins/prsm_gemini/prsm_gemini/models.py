"""The models that an installed Gemini CLI knows, read from its own program."""

from __future__ import annotations

import re
import shutil
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core import ModelInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_BEGIN = re.compile(r"^// packages/core/\S*src/config/models\.[jt]s$")
_MODEL = re.compile(r'^(?:var|const|export const) \w+ = "((?:gemini|gemma)-[\w.-]+)";$')
_SHORT = frozenset({"auto", "pro", "flash", "flash-lite"})
_LINES = 120  # of the module, from its beginning
_SOURCES = ("bundle/chunk-*.js", "dist/src/config/models.js")
_CORE = "gemini-cli-core"


def known_models(command: Sequence[str]) -> tuple[ModelInfo, ...]:
    """Return the models, without those that embed texts; empty where none are found.

    The program is one file for everything, in which a comment marks each module; before, the
    models were a module of the package gemini-cli-core. Reads tens of megabytes.
    """
    for package in _packages(command):
        for path in _files(package):
            found = dict.fromkeys(_models_in(path))
            if found:
                return tuple(ModelInfo(model_id=name) for name in found)
    return ()


def is_known(command: Sequence[str], model: str) -> bool:
    """Return whether Gemini CLI takes a name that an account does not list."""
    plain = model.removeprefix("models/")
    return plain in _SHORT or any(known.model_id == plain for known in known_models(command))


def _packages(command: Sequence[str]) -> Iterator[Path]:
    """Yield the folders of packages in which the words of a command line lie."""
    for word in command:
        program = shutil.which(word) or word
        for parent in Path(program).resolve().parents:
            if (parent / "package.json").is_file():
                yield parent
                yield parent.parent / _CORE
                yield parent / "node_modules" / "@google" / _CORE
                break


def _files(package: Path) -> Iterator[Path]:
    for pattern in _SOURCES:
        yield from sorted(package.glob(pattern), key=lambda path: -path.stat().st_size)


def _models_in(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as file:
        module = iter(file)
        if path.name != "models.js":
            for line in module:
                if _BEGIN.match(line.rstrip()):
                    break
        for line in islice(module, _LINES):
            found = _MODEL.match(line.strip())
            if found and "embedding" not in found[1]:
                yield found[1]
