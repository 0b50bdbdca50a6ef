"""Writes settings as YAML, for people to read and to copy from."""

from __future__ import annotations

from typing import Any

import yaml


def dump_document(values: Any) -> str:
    """Return plain values as YAML in the order they have, ending with a newline.

    What is not ASCII is escaped: a terminal shows it as it is written.
    """
    text: str = yaml.safe_dump(values, sort_keys=False)
    return text
