"""The threads of the small app-server: what it keeps, and what its model is told."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


class Thread:
    """A conversation, kept on disk once it has begun."""

    def __init__(self, path: Path, state: dict) -> None:
        self.path = path
        self.state = state
        self.turn: Any = None

    @property
    def id(self) -> str:
        return self.path.stem

    def add(self, *items: dict) -> None:
        for item in items:
            self.write("response_item", item)
        self.state["items"] += items
        self.save()

    @property
    def _rollout(self) -> Path:
        return self.path.parents[1] / "sessions" / f"rollout-now-{self.id}.jsonl"

    def write(self, kind: str, payload: dict) -> None:
        """Append a line to the file from which a resume is made."""
        self._rollout.parent.mkdir(exist_ok=True)
        with self._rollout.open("a") as file:
            file.write(json.dumps({"type": kind, "payload": payload}) + "\n")

    def resume(self) -> None:
        """Have what that file has."""
        lines = self._rollout.read_text().splitlines() if self._rollout.exists() else ()
        told = [json.loads(line) for line in lines]
        self.state["items"] = [one["payload"] for one in told if one["type"] == "response_item"]

    def told(self) -> list[dict]:
        """Return what the model is told: a call without an output was aborted."""
        items = self.state["items"]
        had = {item["call_id"] for item in items if item["type"] == "function_call_output"}
        told = []
        for item in items:
            told.append(item)
            if item["type"] == "function_call" and item["call_id"] not in had:
                told.append(output_of(item["call_id"], "aborted"))
        return told

    def save(self) -> None:
        """Replace the file: whoever kills us finds the old one or the new one."""
        beside = self.path.with_suffix(f".{threading.get_ident()}")
        beside.write_text(json.dumps(self.state))
        beside.replace(self.path)


def output_of(call_id: str, output: str) -> dict:
    return {"type": "function_call_output", "call_id": call_id, "output": output}
