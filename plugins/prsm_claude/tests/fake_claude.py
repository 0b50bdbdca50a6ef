"""A small Claude CLI in Python: the same talk over stdio, the same requests to a model.

    python -I -S fake_claude.py [--fault=NAME --marks=FOLDER] --session-id=ID …

It keeps its transcripts in CLAUDE_CONFIG_DIR, so that a new process can resume them. With a fault
it does at one point what `faults.py` says, and needs no model server.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import threading
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_HERE = Path(__file__)
sys.path[:0] = [str(_HERE.parents[3]), str(_HERE.parents[2] / "prsm_testing")]

from plugins.prsm_claude.tests.fake_parts import Conversation, Wire  # noqa: E402 - found by now

VERSION = "2.1.330 (Claude Code)"
MODEL = "scripted"
_STEERED = "The user sent a new message while you were working:\n"
_STOPPED = "The user doesn't want to proceed with this tool use."
_MODELS = [{"value": "default", "displayName": "Default", "supportedEffortLevels": ["low", "high"]}]


class ModelFailedError(Exception):
    """The model server answered with an error: the turn fails."""

    def __init__(self, status: int | None, message: str) -> None:
        super().__init__(f"API Error: {status or 'Connection lost'} {message}")
        self.status = status
        self.reason = "prompt_too_long" if "prompt is too long" in message else "api_error"


class Turn:
    """One turn of the conversation; it runs in a thread of its own."""

    def __init__(self, cli: Cli, texts: list[tuple[str, str]]) -> None:
        self.cli = cli
        self.texts = texts
        self.interrupted = threading.Event()
        self.stopped = False  # by the hook behind a tool
        self.deferred: dict | None = None
        self.connection: socket.socket | None = None
        self.usage = {"input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": 0}
        self.last_text = ""

    def tell(self, kind: str, **fields: Any) -> None:
        place = {"session_id": self.cli.conversation.id, "uuid": str(uuid.uuid4())}
        self.cli.wire.say({"type": kind, "parent_tool_use_id": None, **place, **fields})

    def tell_message(self, role: str, content: list, model: str = MODEL, **fields: Any) -> None:
        self.tell(role, message={"role": role, "content": content, "model": model}, **fields)

    def stream(self, **event: Any) -> None:
        self.tell("stream_event", event=event)

    def delta(self, text: str) -> None:
        piece = {"type": "text_delta", "text": text}
        self.stream(type="content_block_delta", index=0, delta=piece)

    def say_text(self, text: str) -> None:
        """Say a whole message."""
        self.stream(type="message_start", message={"usage": {"input_tokens": 100}})
        self.delta(text)
        self.tell_message("assistant", [{"type": "text", "text": text}])
        self.last_text = text

    def use(self, **counts: int) -> None:
        """Tell what the response used, and that it is over."""
        for name, count in counts.items():
            self.usage[name] += count
        self.stream(type="message_delta", delta={}, usage=counts)
        self.stream(type="message_stop")

    def tool_started(self, call_id: str, name: str, arguments: dict) -> Any:
        """Announce a call and ask the hook for leave."""
        block = {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        self.tell_message("assistant", [block])
        return self.before(block)

    def tool_result(self, call_id: str, text: str, is_error: bool = False) -> dict:
        result: dict = {"type": "tool_result", "tool_use_id": call_id, "content": text}
        result["is_error"] = is_error
        self.tell_message("user", [result])
        return result

    def end(self, reason: str = "completed", text: str | None = None, **fields: Any) -> None:
        told = {
            "subtype": "success",
            "is_error": False,
            "duration_ms": 1,
            "duration_api_ms": 1,
            "num_turns": 1,
            "terminal_reason": reason,
            "result": self.last_text if text is None else text,
            "usage": self.usage,
            "modelUsage": {MODEL: {"contextWindow": 200_000}},
        }
        self.cli.conversation.spend(self.usage["input_tokens"] + self.usage["output_tokens"])
        told["total_cost_usd"] = self.cli.conversation.cost
        self.cli.turn = None
        self.tell("result", **{**told, **fields})
        self.cli.next_turn()

    def fail(self, reason: str, text: str, status: int | None = None) -> None:
        """Fail as the real one does: with words in the model's place, and a result."""
        word = "authentication_failed" if status == 401 else "server_error"
        said = [{"type": "text", "text": text}]
        self.tell_message("assistant", said, model="<synthetic>", error=word)
        self.end(reason, text, is_error=True, api_error_status=status)

    def interrupt(self) -> None:
        self.interrupted.set()
        if self.connection is not None:
            with suppress(OSError):  # it has ended by itself
                self.connection.shutdown(socket.SHUT_RDWR)

    def run(self) -> None:
        try:
            self._take_texts(self.texts)
            calls = self._resumed() or self._respond()
            while calls and not self.interrupted.is_set():
                self._work(calls)
                if self.stopped or self.deferred or self.interrupted.is_set():
                    break
                self._take_steered(self.cli.take_queue())
                calls = self._respond()
        except ModelFailedError as error:
            self.fail(error.reason, str(error), error.status)
        except OSError as error:
            self.fail("api_error", f"API Error: connection lost: {error}")
        else:
            self._close()

    def _close(self) -> None:
        if self.interrupted.is_set():
            self.end("aborted_streaming", is_error=True, subtype="error_during_execution")
        elif self.deferred:
            self.cli.conversation.defer(self.deferred)
            self.end("tool_deferred", deferred_tool_use=self.deferred)
        else:
            self.end("hook_stopped" if self.stopped else "completed")

    def _take_texts(self, texts: list) -> None:
        for message_id, text in texts:
            self.cli.lifecycle(message_id, "started")
            self.cli.conversation.add("user", [{"type": "text", "text": text}], message_id)

    def _take_steered(self, texts: list) -> None:
        for message_id, text in texts:
            self.cli.lifecycle(message_id, "started")
            self.cli.conversation.put_in(text, message_id, _STEERED + text)

    def _resumed(self) -> list[dict]:
        """Return the call that was let go of before the process ended."""
        deferred, self.cli.conversation.deferred = self.cli.conversation.deferred, None
        return [deferred] if deferred else []

    def _respond(self) -> list[dict]:
        """Ask the model once; return the calls of its response."""
        blocks: dict[int, dict] = {}
        usage: dict = {}
        for event in self._events():
            if self.interrupted.is_set():
                return []
            self.stream(**event)
            if event["type"] == "content_block_start":
                blocks[event["index"]] = {**event["content_block"], "json": ""}
            elif event["type"] == "content_block_delta":
                _grow(blocks[event["index"]], event["delta"])
            elif event["type"] == "content_block_stop":
                block = blocks[event["index"]] = _whole(blocks[event["index"]])
                self.tell_message("assistant", [block])
                self.last_text = block.get("text", self.last_text)
            elif event["type"] == "message_delta":
                usage = event["usage"]
        if not usage:
            raise ModelFailedError(None, "the stream was cut")
        for name in self.usage:
            self.usage[name] += usage[name]
        self.cli.conversation.add("assistant", list(blocks.values()))
        return [block for block in blocks.values() if block["type"] == "tool_use"]

    def _work(self, calls: list[dict]) -> None:
        """Work on the calls of a response; those of MCP servers may overlap each other."""
        results: dict[str, dict] = {}
        workers: list[threading.Thread] = []
        for call in calls:
            if not call["name"].startswith("mcp__"):
                _join(workers)
            worker = threading.Thread(target=self._call, args=(call, results), daemon=True)
            workers.append(worker)
            worker.start()
            if not call["name"].startswith("mcp__"):
                worker.join()
        _join(workers)
        if not self.deferred:
            ordered = [results[call["id"]] for call in calls]
            self.cli.conversation.add("user", ordered)

    def _call(self, block: dict, results: dict[str, dict]) -> None:
        works = {"Bash": self._shell, "AskUserQuestion": self._question}
        refused = self.before(block)
        if refused == "defer":
            self.deferred = block
            return
        text, is_error = refused, True
        if refused is None:
            text, is_error = works.get(block["name"], self._tool)(block)
        if self.interrupted.is_set():
            text, is_error = _STOPPED, True
        results[block["id"]] = self.tool_result(block["id"], str(text), is_error)
        if not is_error and block["name"].startswith("mcp__"):
            self._after(block)

    def before(self, block: dict) -> Any:
        """Ask the hook before a tool; return why it may not run, None if it may."""
        answer = self._hook("PreToolUse", block) if "PreToolUse" in self.cli.hooks else {}
        if answer is None:
            return "PreToolUse hook failed"
        decision = answer.get("hookSpecificOutput", {})
        if decision.get("permissionDecision") == "deny":
            reason = decision["permissionDecisionReason"]
            return f"PreToolUse:{block['name']} hook error: {reason}"
        if decision.get("permissionDecision") in {"defer", "allow"}:
            return "defer" if decision["permissionDecision"] == "defer" else None
        if block["name"] == "AskUserQuestion":  # which asks for leave with its answers
            return None
        answer = self._leave(block)
        return None if answer.get("behavior") == "allow" else answer.get("message", "refused")

    def _after(self, block: dict) -> None:
        answer = self._hook("PostToolUse", block) or {}
        self.stopped = self.stopped or answer.get("continue") is False

    def _hook(self, event: str, block: dict) -> dict | None:
        given = {
            "hook_event_name": event,
            "tool_name": block["name"],
            "tool_input": block["input"],
            "cwd": str(Path.cwd()),
        }
        request = {
            "subtype": "hook_callback",
            "callback_id": self.cli.hooks[event],
            "input": given,
            "tool_use_id": block["id"],
        }
        return self.cli.wire.ask(request, self.interrupted)

    def _leave(self, block: dict) -> dict:
        """Ask for leave, as the CLI does for what its hooks leave open."""
        request = {
            "subtype": "can_use_tool",
            "tool_name": block["name"],
            "input": block["input"],
            "tool_use_id": block["id"],
        }
        return self.cli.wire.ask(request, self.interrupted) or {}

    def _question(self, block: dict) -> tuple[str, bool]:
        answer = self._leave(block)
        if answer.get("behavior") != "allow":
            return str(answer.get("message", "refused")), True
        return f"answered: {json.dumps(answer['updatedInput']['answers'])}", False

    def _tool(self, block: dict) -> tuple[str, bool]:
        self.cli.tools(self.interrupted)  # a resumed CLI has not greeted the server yet
        name = block["name"].removeprefix("mcp__prsm__")
        params = {"name": name, "arguments": block["input"]}
        result = self.cli.mcp("tools/call", params, self.interrupted)
        text = "".join(part["text"] for part in result.get("content", ()))
        return text, bool(result.get("isError"))

    def _shell(self, block: dict) -> tuple[str, bool]:
        done = subprocess.run(
            ["bash", "-c", block["input"]["command"]], capture_output=True, text=True
        )
        return done.stdout + done.stderr, done.returncode != 0

    def _events(self):
        """Yield the server-sent events of a model response."""
        body = json.dumps(
            {
                "model": MODEL,
                "system": self.cli.system_prompt,
                "messages": self.cli.conversation.messages,
                "tools": self.cli.tools(self.interrupted),
                "stream": True,
            }
        ).encode()
        url = urlsplit(os.environ["ANTHROPIC_BASE_URL"])
        where = (str(url.hostname), url.port or 80)
        head = f"POST {url.path}/v1/messages HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(where) as self.connection:
            self.connection.sendall(head.encode() + body)
            with self.connection.makefile("rb") as answer:
                status = int(answer.readline().split()[1])
                while answer.readline().strip():
                    pass  # headers
                if status != 200:
                    raise ModelFailedError(status, json.loads(answer.read())["error"]["message"])
                for line in answer:
                    if line.startswith(b"data: "):
                        yield json.loads(line[len(b"data: ") :])
        self.connection = None


def _join(workers: list[threading.Thread]) -> None:
    for worker in workers:
        worker.join()


def _grow(block: dict, delta: dict) -> None:
    block["json"] += delta.get("partial_json", "")
    for key in ("text", "thinking", "signature"):
        if key in delta:
            block[key] += delta[key]


def _whole(block: dict) -> dict:
    given = block.pop("json")
    return {**block, "input": json.loads(given or "{}")} if block["type"] == "tool_use" else block


class Cli:
    """Answers the SDK."""

    def __init__(self, options: dict[str, str], fault: dict) -> None:
        self.wire = Wire()
        self.home = Path(os.environ["CLAUDE_CONFIG_DIR"])
        self.fault = fault
        self.turn: Turn | None = None
        self.hooks: dict[str, str] = {}
        self._queue: list[tuple[str, str]] = []
        self._own = [name for name in options.get("tools", "").split(",") if name]
        self._tools: list[dict] | None = None
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        name = options.get("resume") or options.get("session-id") or str(uuid.uuid4())
        self.conversation = Conversation(self.home / "projects" / "cwd" / f"{name}.jsonl")
        self.system_prompt = ""
        if "resume" in options:
            self._resume(name)

    def _resume(self, name: str) -> None:
        if not self.conversation.path.exists():
            sys.stderr.write(f"No conversation found with session ID: {name}\n")
            sys.exit(1)
        self.conversation.load()

    def serve(self) -> None:
        """Read until the SDK closes its end."""
        if "start" in self.fault:
            self.fault["start"](self)
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if message["type"] == "control_response":
                self.wire.settle(message)
            elif message["type"] == "control_request":
                self._answer(message)
            else:
                self._hear(message)
        if "end" in self.fault:
            self.fault["end"](self)

    def _answer(self, message: dict) -> None:
        request = message["request"]
        subtype = request["subtype"]
        if subtype in self.fault:
            self.fault[subtype](self, message)
            return
        if subtype == "interrupt":
            self.wire.answer(message, {"still_queued": [name for name, _ in self._queue]})
            if self.turn is not None:
                self.turn.interrupt()
            return
        if subtype == "cancel_async_message":
            self._cancel(request["message_uuid"])
            self.wire.answer(message, {"cancelled": True})
            return
        self.system_prompt = request.get("appendSystemPrompt", "")
        for event, matchers in (request.get("hooks") or {}).items():
            self.hooks[event] = matchers[0]["hookCallbackIds"][0]
        supported = {"hook_on_failure_supported": True, "hooks_applied": True}
        self.wire.answer(message, {"models": _MODELS, **supported})
        if self.conversation.deferred:
            self._start([])

    def _cancel(self, message_id: str) -> None:
        with self._lock:
            left = [entry for entry in self._queue if entry[0] != message_id]
            known, self._queue = left != self._queue, left
        if known:
            self.lifecycle(message_id, "cancelled")

    def _hear(self, message: dict) -> None:
        content = message["message"]["content"]
        self.lifecycle(message["uuid"], "queued")
        with self._lock:
            self._queue.append((message["uuid"], content))
        self.next_turn()

    def next_turn(self) -> None:
        """Start a turn with what is queued, unless one runs."""
        if self.turn is None and (texts := self.take_queue()):
            self._start(texts)

    def take_queue(self) -> list[tuple[str, str]]:
        with self._lock:
            texts, self._queue = self._queue, []
        return texts

    def _start(self, texts: list[tuple[str, str]]) -> None:
        turn = self.turn = Turn(self, texts)
        play = self.fault.get("turn")
        target = turn.run if play is None else lambda: self._misplay(turn, play)
        threading.Thread(target=target, daemon=True).start()

    def _misplay(self, turn: Turn, play: Any) -> None:
        for message_id, text in turn.texts:
            self.lifecycle(message_id, "started")
            self.conversation.add("user", text, message_id)
        play(turn)

    def lifecycle(self, message_id: str, state: str) -> None:
        told = {"type": "command_lifecycle", "command_uuid": message_id, "state": state}
        self.wire.say(told)

    def mcp(self, method: str, params: dict, given_up: threading.Event) -> dict:
        """Ask PRSM's own MCP server; return its result."""
        message: dict = {"jsonrpc": "2.0", "method": method, "params": params}
        if not method.startswith("notifications/"):
            message["id"] = next(self._numbers)
        request = {"subtype": "mcp_message", "server_name": "prsm", "message": message}
        answer = self.wire.ask(request, given_up) or {}
        result: dict = answer.get("mcp_response", {}).get("result", {})
        return result

    def tools(self, given_up: threading.Event) -> list[dict]:
        """Return the tools to declare; the first time they are asked for."""
        if self._tools is None:
            client = {"name": "fake-claude", "version": "1"}
            hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
            self.mcp("initialize", hello, given_up)
            self.mcp("notifications/initialized", {}, given_up)
            listed = self.mcp("tools/list", {}, given_up).get("tools", ())
            ours = [{"name": f"mcp__prsm__{tool['name']}"} for tool in listed]
            self._tools = [*({"name": name} for name in self._own), *ours]
        return self._tools


def _fault(arguments: list[str]) -> Any:
    """Return what is to go wrong: nothing, unless the arguments begin with an order."""
    if not arguments or not arguments[0].startswith("--fault="):
        return {}
    from prsm_testing.faults import Marks

    from plugins.prsm_claude.tests.faults import FAULTS

    return FAULTS[str(Marks.take(arguments))]


def main(arguments: list[str]) -> None:
    """Tell the version, or serve."""
    fault = _fault(arguments)
    if "--version" in arguments:
        tell = fault.get("version") or (lambda: sys.stdout.write(f"{VERSION}\n"))
        tell()
        return
    options = dict(word.removeprefix("--").partition("=")[::2] for word in arguments)
    Cli(options, fault).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
