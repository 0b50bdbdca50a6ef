"""A JSON-RPC server on stdin and stdout that does what each request's method names.

    python -I -S rpc_script.py

It answers in the order in which it can: what is held is answered when it is released.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

GARBAGE = [b"\n", b"not json\n", b"[1, 2]\n", b'{"id": 10000, "result": {}}\n', b"\xff\xfe{\n"]


def raw(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def say(message: dict[str, Any]) -> None:
    raw(json.dumps(message).encode() + b"\n")


class Server:
    """What is held back, and who asked for what the client is asked in turn."""

    def __init__(self) -> None:
        self.held: list[dict[str, Any]] = []
        self.asked: dict[int, dict[str, Any]] = {}  # number of our request -> the client's

    def take(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params") or {}
        if method is None:
            origin = self.asked.pop(message["id"])
            answer = {name: message[name] for name in ("result", "error") if name in message}
            say({"id": origin["id"], "result": {"client": answer}})
            return
        getattr(self, method)(message, params)

    def echo(self, message: dict, params: dict) -> None:
        say({"id": message["id"], "result": {**params, "pid": os.getpid()}})

    def hold(self, message: dict, _: dict) -> None:
        self.held.append(message)
        say({"method": "held", "params": {"count": len(self.held)}})

    def release(self, message: dict, params: dict) -> None:
        for held in reversed(self.held):  # the last first
            self.echo(held, held["params"])
        self.held.clear()
        self.echo(message, params)

    def ask_back(self, message: dict, params: dict) -> None:
        number = 900 + len(self.asked)
        self.asked[number] = message
        say({"id": number, "method": "what", "params": params})

    def refuse(self, message: dict, _: dict) -> None:
        say({"id": message["id"], "error": {"code": -1, "message": "no such thread"}})

    def tell(self, message: dict, params: dict) -> None:
        for number in range(params["count"]):
            say({"method": "told", "params": {"number": number}})
        self.echo(message, {})

    def garble(self, message: dict, params: dict) -> None:
        for line in GARBAGE:
            raw(line)
        line = json.dumps({"id": message["id"], "result": params}).encode() + b"\n"
        for byte in line:
            raw(bytes([byte]))

    def forget(self, message: dict, params: dict) -> None:
        """Answer nothing, ever."""

    def die(self, message: dict, params: dict) -> None:
        sys.stderr.write("fatal: the disk is full\n")
        sys.stderr.flush()
        os._exit(params["code"])


def main() -> None:
    server = Server()
    for line in sys.stdin.buffer:
        server.take(json.loads(line))


if __name__ == "__main__":
    main()
