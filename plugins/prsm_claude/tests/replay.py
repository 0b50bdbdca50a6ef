"""What the real CLI once said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_name("data")


def recorded(name: str) -> list[dict[str, Any]]:
    """Return the messages of a recording."""
    lines = (DATA / f"{name}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]
