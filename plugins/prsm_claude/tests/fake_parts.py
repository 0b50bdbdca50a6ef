"""What the fake CLI is made of: its talk with the SDK, and the conversation that it keeps."""

from __future__ import annotations

import itertools
import json
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_COST = 1e-6  # USD per token


class Wire:
    """JSON lines to the SDK and back; what is asked of it is numbered here."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[str, list] = {}

    def raw(self, data: bytes) -> None:
        with self._lock:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def say(self, message: dict) -> None:
        self.raw(json.dumps(message).encode() + b"\n")

    def ask(self, request: dict, given_up: threading.Event) -> dict | None:
        """Ask the SDK; return its answer, None for an error or once it was given up."""
        number = f"ask-{next(self._numbers)}"
        answer: list = []
        self._waiting[number] = answer
        self.say({"type": "control_request", "request_id": number, "request": request})
        while not answer and not given_up.wait(0.005):
            pass
        if not answer:
            self.say({"type": "control_cancel_request", "request_id": number})
            return None
        response: dict = answer[0].get("response") or {}
        return response if answer[0]["subtype"] == "success" else None

    def settle(self, message: dict) -> None:
        response = message["response"]
        answer = self._waiting.pop(response["request_id"], None)
        if answer is not None:
            answer.append(response)

    def answer(self, message: dict, response: dict) -> None:
        body = {"subtype": "success", "request_id": message["request_id"], "response": response}
        self.say({"type": "control_response", "response": body})


class Conversation:
    """The messages of a session, kept as a transcript."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.id = path.stem
        self.messages: list[dict] = []
        self.cost = 0.0
        self.deferred: dict | None = None

    def load(self) -> None:
        for entry in map(json.loads, self.path.read_text().splitlines()):
            if "message" in entry:
                self.messages.append(entry["message"])
                self.deferred = None
            elif entry["type"] == "cost-state":
                self.cost = entry["totalCostUSD"]
            elif entry["type"] == "attachment" and "block" in entry["attachment"]:
                self.deferred = entry["attachment"]["block"]

    def write(self, **entry: Any) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def add(self, role: str, content: Any, message_id: str | None = None) -> None:
        message = {"role": role, "content": content}
        self.messages.append(message)
        self.write(type=role, uuid=message_id, message=message)

    def put_in(self, text: str, message_id: str, shown: str) -> None:
        attachment = {"type": "queued_command", "prompt": text, "source_uuid": message_id}
        self.write(type="attachment", attachment=attachment)
        self.add("system", [{"type": "text", "text": shown}])

    def spend(self, tokens: int) -> None:
        self.cost += tokens * _COST
        self.write(type="cost-state", totalCostUSD=self.cost)

    def defer(self, block: dict) -> None:
        attachment = {"type": "hook_deferred_tool", "toolUseID": block["id"], "block": block}
        self.write(type="attachment", attachment=attachment)
