#!/usr/bin/env python3
"""aism: the command by which a program speaks with the engine that runs it.

It is one file, needs Python 3.8 or later and nothing else, and knows nothing of PRSM: it sends one
request, a line of JSON, and prints the answer. Where to is said by the environment: PRSM_SOCKET is
a Unix socket, PRSM_REDIS the URL of a Redis. Each request has an id of its own. Sent again with it,
because the connection broke, it has no second effect.

Exit codes: 0 done, 1 refused, 2 wrong usage, 3 no message is there, 4 too many requests, 5 the
engine does not answer.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import ssl
import sys
import time
import uuid
from typing import Any, Mapping, Sequence  # noqa: UP035 - Python 3.8
from urllib.parse import SplitResult, unquote, urlsplit

REFUSED, USAGE, NOTHING, LIMITED, UNREACHABLE = 1, 2, 3, 4, 5
# What the engine gives its programs by their environment, and two that their authors may set.
AGENT, TOKEN, BY_SOCKET, BY_REDIS = "AGENT_ID", "PRSM_TOKEN", "PRSM_SOCKET", "PRSM_REDIS"
TIMEOUT, REQUEST_ID = "PRSM_TIMEOUT", "PRSM_REQUEST_ID"
SECONDS = 60.0  # that an answer may take, if PRSM_TIMEOUT says nothing else
PAUSE = 0.2  # between two attempts to reach the engine
REPEAT = 2  # seconds without an answer after which a request is sent to Redis again
LONGEST = 107  # bytes of a Unix socket's address
MAX_LINE = 1 << 20

HELP = """\
aism state                              your state, and the moves that are open
aism state transition STATE             move; --context '{"why": "..."}' says more
aism message send TO TEXT               to another agent, by name or id; TEXT - reads stdin
aism message next [--wait SECONDS]      the oldest unread message
aism measure NAME VALUE                 --data '{...}' says more
aism heartbeat                          say that you are alive, while you work for long
aism complete SUMMARY                   your task is done; SUMMARY - reads stdin
aism help                               this, and what your state allows now

With --json, first or last, the answer is one JSON object.
Exit codes: 0 done, 1 refused, 2 wrong usage, 3 no message, 4 too many requests, 5 no answer.
"""


class AismError(Exception):
    """What keeps aism from an answer, as its exit code."""

    def __init__(self, code: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


def ask_by_socket(path: str, line: bytes, until: float) -> bytes:
    """Return the answer to a line at the bridge's Unix socket. Raises OSError if none comes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(max(until - time.monotonic(), 0.1))
        _connect(connection, path)
        connection.sendall(line + b"\n")
        with connection.makefile("rb") as stream:
            answer = stream.readline(MAX_LINE)
    if not answer.endswith(b"\n"):
        raise ConnectionError("the engine closed the connection")
    return answer


def ask_by_redis(url: str, agent: str, reply_id: str, line: bytes, until: float) -> bytes:
    """Return the answer to a line put into a stream of Redis. Raises OSError if none comes."""
    parts, keys = urlsplit(url), f"prsm:{{{agent}}}"
    with _connect_redis(parts, max(until - time.monotonic(), 0.1)) as connection:
        redis = Resp(connection)
        if parts.password is not None:
            name = unquote(parts.username or "") or "default"
            redis.call("AUTH", name, unquote(parts.password))
        while True:
            redis.call("XADD", keys + ":requests", "*", "r", line)
            found = redis.call("BLPOP", keys + ":reply:" + reply_id, str(REPEAT))
            if found:
                answer: bytes = found[1]
                return answer
            if time.monotonic() >= until:
                raise OSError("nobody answers at Redis")


def _connect_redis(parts: SplitResult, seconds: float) -> socket.socket:
    if parts.scheme == "unix":
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(seconds)
        try:
            _connect(connection, unquote(parts.path))
        except OSError:
            connection.close()
            raise
        return connection
    where = (parts.hostname or "localhost", parts.port or 6379)
    connection = socket.create_connection(where, timeout=seconds)
    if parts.scheme == "rediss":
        context = ssl.create_default_context()
        return context.wrap_socket(connection, server_hostname=parts.hostname)
    return connection


class Resp:
    """The protocol of Redis, as far as it is needed here."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._stream = connection.makefile("rb")

    def call(self, *words: str | bytes) -> Any:
        """Send a command; return its answer; raise OSError for an error."""
        told = [word if isinstance(word, bytes) else word.encode() for word in words]
        parts = [b"*%d\r\n" % len(told)]
        parts.extend(b"$%d\r\n%s\r\n" % (len(word), word) for word in told)
        self._connection.sendall(b"".join(parts))
        return self._answer()

    def _answer(self) -> Any:
        line = self._stream.readline(MAX_LINE)
        if not line.endswith(b"\r\n"):
            raise ConnectionError("Redis closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise OSError("Redis refuses: " + rest.decode(errors="replace"))
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return self._text(int(rest))
        if kind == b"*":
            return None if int(rest) < 0 else [self._answer() for _ in range(int(rest))]
        return rest

    def _text(self, size: int) -> bytes | None:
        if size < 0:
            return None
        text = self._stream.read(size + 2)
        if len(text) != size + 2:
            raise ConnectionError("Redis closed the connection")
        return text[:-2]


def _connect(connection: socket.socket, path: str) -> None:
    """Connect to a Unix socket, also at a path that is too long for its address."""
    if len(os.fsencode(path)) <= LONGEST:
        connection.connect(path)
        return
    folder = os.open(os.path.dirname(path), os.O_RDONLY)  # noqa: PTH120 - as short as it gets
    try:
        connection.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")  # noqa: PTH119
    finally:
        os.close(folder)


def ask(
    do: str, args: Mapping[str, Any], wait: float = 0.0, environ: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """Return the result of one request; raise AismError where there is none.

    While the engine cannot be reached the request is sent again, with the same id.
    """
    agent, token = environ.get(AGENT, ""), environ.get(TOKEN, "")
    path, url = environ.get(BY_SOCKET), environ.get(BY_REDIS)
    if not path and not url:
        hint = (
            "aism works in a program that PRSM runs, and in what that starts with its environment"
        )
        raise AismError(UNREACHABLE, "neither PRSM_SOCKET nor PRSM_REDIS is set", hint)
    request_id = environ.get(REQUEST_ID) or uuid.uuid4().hex
    request = {"agent": agent, "token": token, "id": request_id, "do": do, "args": args}
    line = json.dumps(request, ensure_ascii=True).encode()
    until = time.monotonic() + wait + _seconds(environ)
    while True:
        try:
            if path:
                answer = ask_by_socket(path, line, until)
            else:
                answer = ask_by_redis(url or "", agent, request_id, line, until)
            return _result(json.loads(answer.decode()))
        except (OSError, ValueError) as error:
            if time.monotonic() + PAUSE >= until:
                hint = "it may be restarting; call again, or end, and you are started anew"
                raise AismError(UNREACHABLE, f"the engine does not answer: {error}", hint) from None
        time.sleep(PAUSE)


def _seconds(environ: Mapping[str, str]) -> float:
    given = environ.get(TIMEOUT, "")
    try:
        return float(given) if given else SECONDS
    except ValueError:
        raise AismError(USAGE, "PRSM_TIMEOUT is no number: " + given, "give seconds") from None


def _result(answer: Any) -> dict[str, Any]:
    if answer.get("ok"):
        return answer.get("result") or {}
    error = answer.get("error") or {}
    code = LIMITED if error.get("code") == "rate_limited" else REFUSED
    raise AismError(code, error.get("message") or "refused", error.get("hint") or "")


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"no JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError('a JSON object is needed, such as {"key": "value"}')
    return value


def _text(given: str) -> str:
    return sys.stdin.read() if given == "-" else given


def _number(text: str) -> float:
    value = float(text)
    if value - value != 0:  # infinite, or none at all
        raise argparse.ArgumentTypeError("a number is needed")
    return int(value) if value == int(value) else value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="aism", add_help=False, usage="\n" + HELP)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("-h", "--help", action="store_true")
    kinds = parser.add_subparsers(dest="kind")
    state = kinds.add_parser("state", add_help=False).add_subparsers(dest="act")
    move = state.add_parser("transition", add_help=False)
    move.add_argument("to")
    move.add_argument("--context", type=_object, default={})
    message = kinds.add_parser("message", add_help=False).add_subparsers(dest="act", required=True)
    send = message.add_parser("send", add_help=False)
    send.add_argument("to")
    send.add_argument("text")
    following = message.add_parser("next", add_help=False)
    following.add_argument("--wait", type=float, default=0.0)
    measure = kinds.add_parser("measure", add_help=False)
    measure.add_argument("name")
    measure.add_argument("value", type=_number)
    measure.add_argument("--data", type=_object, default={})
    kinds.add_parser("heartbeat", add_help=False)
    kinds.add_parser("complete", add_help=False).add_argument("summary")
    kinds.add_parser("help", add_help=False)
    return parser


def _asked(given: argparse.Namespace) -> tuple[str, dict[str, Any], float]:
    """Return what a command line asks for: what to do, its arguments, the seconds it waits."""
    if given.kind == "state":
        moves = {"to": given.to, "context": given.context} if given.act else {}
        return "state", moves, 0.0
    if given.kind == "message" and given.act == "send":
        return "send", {"to": given.to, "text": _text(given.text)}, 0.0
    if given.kind == "message":
        return "next", {"seconds": given.wait}, given.wait
    if given.kind == "measure":
        return "measure", {"name": given.name, "value": given.value, "data": given.data}, 0.0
    if given.kind == "complete":
        return "complete", {"summary": _text(given.summary)}, 0.0
    return given.kind, {}, 0.0


def told(do: str, result: Mapping[str, Any]) -> str:
    """Return an answer in plain words."""
    if do == "state":
        return _told_state(result)
    if do == "next":
        message = result.get("message")
        return "no message" if message is None else f"{message['from']}: {message['text']}"
    if do == "send":
        return "sent"
    return {"complete": "done: end now", "help": str(result.get("text", ""))}.get(do, "ok")


def _told_state(result: Mapping[str, Any]) -> str:
    if not result.get("state"):
        return "no protocol holds for you"
    lines = ["state: {state} (protocol {protocol})".format(**result)]
    for move in result.get("moves") or []:
        when = ": " + move["when"] if move.get("when") else ""
        lines.append("open: " + move["to"] + when)
    lines.extend([] if result.get("moves") else ["no move leads out of it"])
    if result.get("notice"):
        lines.append(str(result["notice"]))
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[-1:] == ["--json"]:  # people write it at the end, too
        words.insert(0, words.pop())
    given = _parser().parse_args(words)
    if given.help or given.kind is None:
        sys.stdout.write(HELP)
        return 0 if given.help else USAGE
    try:
        do, args, wait = _asked(given)
        result = _help() if do == "help" else ask(do, args, wait)
    except AismError as failed:
        _tell_failure(failed, given.json)
        return failed.code
    sys.stdout.write((json.dumps(result) if given.json else told(do, result)) + "\n")
    return NOTHING if do == "next" and result.get("message") is None else 0


def _help() -> dict[str, Any]:
    """Return what aism can do, and what the engine adds; without an engine the former alone."""
    try:
        return ask("help", {})
    except AismError as failed:
        if failed.code != UNREACHABLE:
            raise
        return {"text": HELP + "\n(" + failed.message + ")"}


def _tell_failure(failed: AismError, as_json: bool) -> None:
    error = {"message": failed.message, "hint": failed.hint}
    hint = f" ({failed.hint})" if failed.hint else ""
    plain = "aism: " + failed.message + hint
    sys.stderr.write((json.dumps({"error": error}) if as_json else plain) + "\n")


if __name__ == "__main__":
    sys.exit(main())
