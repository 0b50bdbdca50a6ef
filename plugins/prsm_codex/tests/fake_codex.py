"""A small `codex app-server` in Python: the same talk over stdio, the same requests to a model.

    python -I -S fake_codex.py [--fault=NAME --marks=FOLDER] app-server
        -c 'model_providers.prsm={ base_url = … }'

It keeps its threads in CODEX_HOME, so that a new process can resume them. With a fault it does at
one point what `faults.py` says, and needs no model server.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import runpy
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

VERSION = "codex-cli 0.169.0"
_HERE = Path(__file__)
if TYPE_CHECKING:
    from plugins.prsm_codex.tests.fake_thread import Thread, output_of
else:  # run alone, it has no package
    _KEPT = runpy.run_path(str(_HERE.with_name("fake_thread.py")))
    Thread, output_of = _KEPT["Thread"], _KEPT["output_of"]
_ENV_KEY = re.compile(r'env_key = "([^"]*)"')
_BASE_URL = re.compile(r'base_url = "http://([^:/]+):(\d+)([^"]*)"')
_CUT_OFF = "dynamic tool call was cancelled before receiving a response"
_ZERO = {"input": 0, "output": 0, "cached": 0, "reasoning": 0}
_INFO = {401: "httpConnectionFailed", 429: "responseTooManyFailedAttempts"}


class RefusedError(Exception):
    """A request of the client is answered with an error."""


class ModelFailedError(Exception):
    """The model server answered with an error: the turn fails."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.info = {_INFO.get(status, "httpConnectionFailed"): {"httpStatusCode": status}}


class Wire:
    """JSON lines to the client and back; requests are numbered here."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1000)
        self._waiting: dict[int, list] = {}

    def raw(self, data: bytes) -> None:
        with self._lock:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def say(self, message: dict) -> None:
        self.raw(json.dumps(message).encode() + b"\n")

    def ask(self, method: str, params: dict, given_up: threading.Event) -> dict:
        """Ask the client; return its answer, or nothing once it was given up."""
        number = next(self._numbers)
        answer: list = []
        self._waiting[number] = answer
        self.say({"id": number, "method": method, "params": params})
        while not answer and not given_up.wait(0.005):
            pass
        return answer[0] if answer else {}

    def settle(self, message: dict) -> None:
        answer = self._waiting.pop(message["id"], None)
        if answer is not None:
            answer.append(message.get("result") or {})


class Turn:
    """One turn of a thread; it runs in a thread of its own."""

    def __init__(self, server: Server, thread: Thread, text: str | None) -> None:
        self.server = server
        self.thread = thread
        self.text = text
        self.id = f"turn-{len(thread.state['turns'])}"
        self.interrupted = threading.Event()
        self.steered: list[dict] = []
        self.said: str | None = None
        self.connection: socket.socket | None = None
        self.record: dict = {"id": self.id, "status": "inProgress", "items": []}

    def tell(self, method: str, **params) -> None:
        place = {"threadId": self.thread.id, "turnId": self.id}
        self.server.wire.say({"method": method, "params": {**place, **params}})

    def tell_turn(self, method: str, status: str, error: dict | None = None) -> None:
        turn: dict = {"id": self.id, "status": status, "error": error, "items": []}
        self.server.wire.say(
            {"method": method, "params": {"threadId": self.thread.id, "turn": turn}}
        )

    def ask(self, method: str, **params) -> dict:
        place = {"threadId": self.thread.id, "turnId": self.id}
        return self.server.wire.ask(method, {**place, **params}, self.interrupted)

    def say_text(self, text: str, item: str = "msg") -> None:
        """Say a whole message."""
        self.tell("item/agentMessage/delta", itemId=item, delta=text)
        self.tell("item/completed", item={"type": "agentMessage", "id": item, "text": text})

    def use(self, **counts: int) -> None:
        """Add to the thread's tokens and tell the total."""
        total = self.thread.state["usage"]
        for name, count in counts.items():
            total[name] += count
        self.tell("thread/tokenUsage/updated", tokenUsage={"total": _total(total)})

    def end(self, status: str, error: dict | None = None) -> None:
        self.record["status"] = status
        self.thread.turn = None
        self.thread.save()
        ended = "turn_aborted" if status == "interrupted" else "task_complete"
        self.thread.write("event_msg", {"type": ended, "last_agent_message": self.said})
        self.tell_turn("turn/completed", status, error)

    def interrupt(self) -> None:
        self.interrupted.set()
        if self.connection is not None:
            with suppress(OSError):  # it has ended by itself
                self.connection.shutdown(socket.SHUT_RDWR)

    def run(self) -> None:
        try:
            while not self.interrupted.is_set():
                self.thread.add(*self.steered)
                self.steered.clear()
                calls = self._respond()
                if not calls and not self.steered:
                    break
                self._work(calls)
        except ModelFailedError as error:
            self.end("failed", {"message": str(error), "codexErrorInfo": error.info})
        except OSError as error:
            self.end("failed", {"message": f"stream disconnected: {error}"})
        else:
            self.end("interrupted" if self.interrupted.is_set() else "completed")

    def _respond(self) -> list[dict]:
        """Ask the model once; return the calls of its response."""
        calls, usage = [], None
        for event in self._events():
            if self.interrupted.is_set():
                break
            kind, item = event["type"], event.get("item", {})
            if kind == "response.output_text.delta":
                self.tell("item/agentMessage/delta", itemId=event["item_id"], delta=event["delta"])
            elif kind == "response.output_item.done":
                self._item(item)
                calls += [item] if item["type"] == "function_call" else []
            elif kind == "response.completed":
                usage = event["response"]["usage"]
                self.thread.write("token_usage_record", {"usage": usage})
                self.tell("rawResponse/completed", responseId=event["response"]["id"])
        if usage is not None:
            total = self.thread.state["usage"]
            total["input"] += usage["input_tokens"]
            total["output"] += usage["output_tokens"]
            if not calls:
                self.use()
        return calls

    def _item(self, item: dict) -> None:
        self.thread.add(item)
        if item["type"] == "message":
            text = self.said = item["content"][0]["text"]
            told = {"type": "agentMessage", "id": item["id"], "text": text}
            self.tell("item/completed", item=told)
        self.tell("rawResponseItem/completed", item=item)

    def _work(self, calls: list[dict]) -> None:
        """Work on all calls of a response at once, then tell their outputs."""
        outputs: dict[str, str] = {}
        workers = [
            threading.Thread(target=self._call, args=(call, outputs), daemon=True) for call in calls
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        for call in calls:
            call_id = call["call_id"]
            output = outputs.get(call_id, _CUT_OFF)
            item = output_of(call_id, output)
            self.thread.add(item)
            self.tell("rawResponseItem/completed", item=item)
        if calls:
            self.use()

    def _call(self, call: dict, outputs: dict[str, str]) -> None:
        arguments = json.loads(call["arguments"])
        works = {"exec_command": self._shell, "request_user_input": self._question}
        work = works.get(call["name"], self._tool)
        output = work(call["call_id"], call["name"], arguments)
        if not self.interrupted.is_set():
            outputs[call["call_id"]] = output

    def _tool(self, call_id: str, name: str, arguments: dict) -> str:
        blocked = self.hook(call_id, name, arguments, self.thread.state["cwd"])
        if blocked:
            return f"Tool call blocked by PreToolUse hook: {blocked}"
        item = {"type": "dynamicToolCall", "id": call_id, "tool": name, "arguments": arguments}
        self.tell("item/started", item=item)
        answer = self.ask("item/tool/call", callId=call_id, tool=name, arguments=arguments)
        done = {**item, "status": "completed" if answer else "failed"}
        done["success"] = answer.get("success", False)
        self.record["items"].append(done)
        self.tell("item/completed", item=done)
        return "".join(part["text"] for part in answer.get("contentItems", ()))

    def _question(self, call_id: str, _: str, arguments: dict) -> str:
        questions = arguments["questions"]
        return json.dumps(
            self.ask("item/tool/requestUserInput", itemId=call_id, questions=questions)
        )

    def _shell(self, call_id: str, _: str, arguments: dict) -> str:
        command, cwd = arguments["cmd"], self.thread.state["cwd"]
        shown = f"/bin/bash -lc '{command}'"
        item = {"type": "commandExecution", "id": call_id, "command": shown, "cwd": cwd}
        blocked = self.hook(call_id, "Bash", {"command": command}, cwd)
        if blocked:
            return f"Command blocked by PreToolUse hook: {blocked}. Command: {command}"
        self.tell("item/started", item={**item, "status": "inProgress"})
        if self.thread.state["policy"] == "untrusted" and not self._approved(call_id, shown, cwd):
            self.tell("item/completed", item={**item, "status": "declined"})
            return "rejected by user"
        done = subprocess.run(["bash", "-c", command], cwd=cwd, capture_output=True, text=True)
        status = "completed" if done.returncode == 0 else "failed"
        output = done.stdout + done.stderr
        result = {"aggregatedOutput": output, "exitCode": done.returncode}
        self.tell("item/completed", item={**item, "status": status, **result})
        return output

    def _approved(self, call_id: str, shown: str, cwd: str) -> bool:
        asked = self.ask(
            "item/commandExecution/requestApproval", itemId=call_id, command=shown, cwd=cwd
        )
        return asked.get("decision") == "accept"

    def hook(self, call_id: str, tool: str, arguments: dict, cwd: str) -> str | None:
        """Ask the hook; return why it blocks a call, if it does."""
        payload = {
            "session_id": self.thread.id,
            "turn_id": self.id,
            "cwd": cwd,
            "hook_event_name": "PreToolUse",
            "tool_name": tool,
            "tool_input": arguments,
            "tool_use_id": call_id,
        }
        blocked: str | None
        blocked, status = self.server.hook.run(payload)
        if status:
            self.tell("hook/completed", run={"eventName": "preToolUse", "status": status})
        return blocked

    def _events(self):
        """Yield the server-sent events of a model response."""
        state = self.thread.state
        body = json.dumps(
            {
                "model": state.get("model") or "scripted",
                "instructions": state["instructions"],
                "input": self.thread.told(),
                "tools": state["tools"],
                "stream": True,
            }
        ).encode()
        host, port, path = self.server.base_url
        with socket.create_connection((host, port)) as self.connection:
            head = [
                f"POST {path}/responses HTTP/1.1",
                f"Host: {host}",
                f"Content-Length: {len(body)}",
            ]
            if (key := os.environ.get(self.server.key_variable)) is not None:
                head.append(f"Authorization: Bearer {key}")
            self.connection.sendall("\r\n".join([*head, "", ""]).encode() + body)
            with self.connection.makefile("rb") as answer:
                status = int(answer.readline().split()[1])
                while answer.readline().strip():
                    pass  # headers
                if status != 200:
                    text = json.loads(answer.read())["error"]["message"]
                    raise ModelFailedError(status, f"unexpected status {status}: {text}")
                for line in answer:
                    if line.startswith(b"data: "):
                        yield json.loads(line[len(b"data: ") :])
        self.connection = None


class Server:
    """Answers the client."""

    def __init__(self, home: Path, arguments: list[str], fault: dict) -> None:
        self.wire = Wire()
        self.home = home
        self.threads: dict[str, Thread] = {}
        self._fault = fault
        found = _BASE_URL.search(" ".join(arguments))
        self.base_url = (found[1], int(found[2]), found[3]) if found else ("", 0, "")
        named = _ENV_KEY.search(" ".join(arguments))
        self.key_variable = named[1] if named else ""
        self.hook = _load("fake_hook.py")["Hook"](home, arguments)

    def serve(self) -> None:
        """Read until the client closes its end."""
        if "start" in self._fault:
            self._fault["start"](self)
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "method" not in message:
                self.wire.settle(message)
            elif "id" in message:
                self._answer(message)
        if "end" in self._fault:
            self._fault["end"](self)

    def _answer(self, message: dict) -> None:
        method, params = message["method"], message["params"]
        handler: Any = self._fault.get(method) or getattr(self, _named(method), self.unknown)
        try:
            result = handler(self, params) if method in self._fault else handler(params)
        except RefusedError as error:
            error_body = {"code": -32600, "message": str(error)}
            self.wire.say({"id": message["id"], "error": error_body})
            return
        if result is not None:
            self.wire.say({"id": message["id"], "result": result})
        if method == "turn/start" and result is not None:
            self._run(self.threads[params["threadId"]].turn)

    def _run(self, turn: Turn | None) -> None:
        if turn is None:
            return
        turn.tell_turn("turn/started", "inProgress")
        play = self._fault.get("turn")
        target = turn.run if play is None else lambda: play(turn)
        threading.Thread(target=target, daemon=True).start()

    def _thread(self, params: dict) -> Thread:
        thread = self.threads.get(params["threadId"])
        if thread is None:
            raise RefusedError("thread not found")
        return thread

    def unknown(self, _: dict) -> dict:
        raise RefusedError("this method is not known")

    def initialize(self, _: dict) -> dict:
        return {"userAgent": "fake", "codexHome": str(self.home)}

    def hooks_list(self, params: dict) -> dict:
        return {"data": [{"cwd": params["cwds"][0], "hooks": self.hook.listed()}]}

    def config_batchwrite(self, params: dict) -> dict:
        (edit,) = params["edits"]
        if not self.hook.trust(edit):
            raise RefusedError("this setting is not known")
        return {"status": "ok"}

    def thread_start(self, params: dict) -> dict:
        folder = self.home / "threads"
        folder.mkdir(exist_ok=True)
        path = folder / f"thread-{len(list(folder.iterdir()))}-{os.getpid()}.json"
        state = {
            "cwd": params["cwd"],
            "policy": params["approvalPolicy"],
            "model": params.get("model"),
            "instructions": params["developerInstructions"],
            "tools": params["dynamicTools"],
            "items": [],
            "turns": [],
            "usage": dict(_ZERO),
        }
        thread = self.threads[path.stem] = Thread(path, state)
        thread.save()
        return {"thread": {"id": thread.id}}

    def thread_resume(self, params: dict) -> dict:
        path = self.home / "threads" / f"{params['threadId']}.json"
        if not path.exists():
            raise RefusedError(f"no rollout found for thread id {params['threadId']}")
        thread = self.threads[path.stem] = Thread(path, json.loads(path.read_text()))
        thread.resume()
        thread.state["policy"] = params["approvalPolicy"]
        usage = {"total": _total(thread.state["usage"])}
        told = {"threadId": thread.id, "turnId": None, "tokenUsage": usage}
        self.wire.say({"method": "thread/tokenUsage/updated", "params": told})
        return {
            "thread": {"id": thread.id},
            "initialTurnsPage": {"data": thread.state["turns"][-1:]},
        }

    def turn_start(self, params: dict) -> dict:
        thread = self._thread(params)
        texts = [part["text"] for part in params["input"]]
        turn = thread.turn = Turn(self, thread, texts[0] if texts else None)
        if texts:
            turn.record["items"].append({"clientId": params["clientUserMessageId"]})
        thread.state["turns"].append(turn.record)
        thread.write("event_msg", {"type": "task_started"})
        thread.add(*(_message(text) for text in texts))
        for text in texts:
            content = [{"type": "text", "text": text}]
            said = {"type": "UserMessage", "client_id": params["clientUserMessageId"]}
            item = {"type": "item_completed", "item": {**said, "content": content}}
            thread.write("event_msg", item)
        return {"turn": {"id": turn.id}}

    def thread_inject_items(self, params: dict) -> dict:
        self._thread(params).add(*params["items"])
        return {}

    def turn_steer(self, params: dict) -> dict:
        turn = self._thread(params).turn
        if turn is None:
            raise RefusedError("no active turn to steer")
        turn.steered += [_message(part["text"]) for part in params["input"]]
        return {}

    def turn_interrupt(self, params: dict) -> dict:
        turn = self._thread(params).turn
        if turn is None:
            raise RefusedError("no active turn to interrupt")
        turn.interrupt()
        return {}

    def thread_backgroundterminals_clean(self, _: dict) -> dict:
        return {}


def _fault(arguments: list[str]) -> Any:
    """Return what is to go wrong: nothing, unless the arguments begin with an order."""
    if not arguments or not arguments[0].startswith("--fault="):
        return {}
    sys.path[:0] = [str(_HERE.parents[3]), str(_HERE.parents[2] / "prsm_testing")]
    from prsm_testing.faults import Marks

    from plugins.prsm_codex.tests.faults import FAULTS

    return FAULTS[str(Marks.take(arguments))]


def _load(name: str) -> dict[str, Any]:
    return runpy.run_path(str(_HERE.with_name(name)))


def _named(method: str) -> str:
    return method.replace("/", "_").lower()


def _message(text: str) -> dict:
    content = [{"type": "input_text", "text": text}]
    return {"type": "message", "role": "user", "content": content}


def _total(usage: dict) -> dict:
    return {
        "inputTokens": usage["input"],
        "outputTokens": usage["output"],
        "cachedInputTokens": usage["cached"],
        "reasoningOutputTokens": usage["reasoning"],
        "totalTokens": usage["input"] + usage["output"],
    }


def main(arguments: list[str]) -> None:
    """Tell the version, or serve."""
    fault = _fault(arguments)
    if "--version" in arguments:
        tell = fault.get("version") or (lambda: sys.stdout.write(f"{VERSION}\n"))
        tell()
        return
    Server(Path(os.environ["CODEX_HOME"]), arguments, fault).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
