"""Agents in markdown: the front matter says what one has, the text below is its prompt.

Each is an expert unless its `role` makes it a worker or a reviewer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.config.document import Document, parse_text, read_text
from prsm_core.config.layers import Layer
from prsm_core.config.paths import cannot_be_read
from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

_FENCE = "---"
_SHAPE = f"an agent file is {_FENCE}, YAML, {_FENCE}, and then its system prompt"


def agent_files(folder: Path) -> list[Path]:
    """Return the markdown files of a folder by name; none if there is no folder.

    Raises ConfigError for a folder that cannot be read.
    """
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".md")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise cannot_be_read(folder, error) from error


def agent_layer(path: Path, text: str | None = None) -> Layer:
    """Return a layer that sets `experts.<name of the file>`, from its text if that was read.

    Raises ConfigError, with the line where there is one, for a file that is no agent file.
    """
    lines = ((read_text(path) if text is None else text) or "").splitlines()
    end = next((n for n, line in enumerate(lines) if n and line.rstrip() == _FENCE), None)
    if end is None or lines[0].rstrip() != _FENCE:
        raise ConfigError(f"{path}:1: has no front matter", hint=_SHAPE)
    front = parse_text("\n" + "\n".join(lines[1:end]), source=str(path))  # line numbers stay
    values = front.value if front.value is not None else {}
    if not isinstance(values, dict):
        raise ConfigError(f"{path}:2: the front matter must be a mapping", hint=_SHAPE)
    if "system_prompt" in values:
        where = front.origins["system_prompt",]
        raise ConfigError(f"{where}: system_prompt does not belong here", hint=_SHAPE)
    prompt = "\n".join(lines[end + 1 :]).strip()
    if not prompt:
        raise ConfigError(f"{path}:{end + 1}: no system prompt follows", hint=_SHAPE)
    if isinstance(values.get("tools"), str):  # as other tools write it: tools: Read, Grep
        values["tools"] = [name.strip() for name in values["tools"].split(",")]
    values["system_prompt"] = prompt
    origins = {**front.origins, ("system_prompt",): f"{path}:{end + 2}"}
    return Layer.at(("experts", path.stem), Document(value=values, origins=origins))
