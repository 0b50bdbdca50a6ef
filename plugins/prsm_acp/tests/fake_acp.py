"""A small ACP agent in Python: the protocol over stdio, requests to a model, MCP servers.

    FAKE_URL=http://127.0.0.1:PORT/v1 FAKE_HOME=DIR python -I -S fake_acp.py
        [--fault=NAME --marks=FOLDER]

It keeps its sessions in FAKE_HOME, so that a new process can load them. With a fault it does at
one point what `faults.py` says, and needs no model server.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

VERSION = "fake-acp 1.0.0"
MODES = ("ask", "free")
MODELS = ("scripted-1", "scripted-2")
_HERE = Path(__file__)
_OPTIONS = [
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "once", "name": "Once", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


class RefusedError(Exception):
    """A request of the client is answered with an error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.body = {"code": code, "message": message, "data": data}


class CancelledError(Exception):
    """The client has cancelled the turn."""


class Wire:
    """JSON-RPC lines to a peer and back; requests are numbered here."""

    def __init__(self, out: Any) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._numbers = itertools.count(1000)
        self._waiting: dict[int, list] = {}

    def raw(self, data: bytes) -> None:
        with self._lock:
            self._out.write(data)
            self._out.flush()

    def say(self, message: dict) -> None:
        self.raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def ask(self, method: str, params: dict, given_up: threading.Event) -> Any:
        """Ask the peer; return its whole answer, raise CancelledError once it was given up."""
        number = next(self._numbers)
        answer: list = []
        self._waiting[number] = answer
        self.say({"id": number, "method": method, "params": params})
        while not answer:
            if given_up.wait(0.005):
                self.say({"method": "notifications/cancelled", "params": {"requestId": number}})
                raise CancelledError
        return answer[0]

    def settle(self, message: dict) -> None:
        answer = self._waiting.pop(message["id"], None)
        if answer is not None:
            answer.append(message)


class McpServer:
    """An MCP server over stdio, and the tools it has."""

    def __init__(self, told: dict) -> None:
        env = {**os.environ, **{pair["name"]: pair["value"] for pair in told["env"]}}
        self.name = told["name"]
        self.process = subprocess.Popen(
            [told["command"], *told["args"]], stdin=-1, stdout=-1, env=env
        )
        self.wire = Wire(self.process.stdin)
        threading.Thread(target=self._read, daemon=True).start()
        never = threading.Event()
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "fake", "version": "1"},
        }
        self.wire.ask("initialize", hello, never)
        self.wire.say({"method": "notifications/initialized", "params": {}})
        self.tools = self.wire.ask("tools/list", {}, never)["result"]["tools"]

    def _read(self) -> None:
        for line in self.process.stdout or ():
            message = json.loads(line)
            if "method" not in message:
                self.wire.settle(message)

    def call(self, name: str, arguments: dict, given_up: threading.Event) -> tuple[str, bool]:
        params = {"name": name, "arguments": arguments}
        result = self.wire.ask("tools/call", params, given_up)["result"]
        text = "\n".join(part.get("text", "") for part in result["content"])
        return text, bool(result.get("isError"))


class Session:
    """A conversation, kept on disk once it has begun."""

    def __init__(self, agent: Agent, path: Path, state: dict, servers: list[dict]) -> None:
        self.agent = agent
        self.path = path
        self.state = state
        self.servers = [McpServer(told) for told in servers]
        self.allowed: set[str] = set()  # servers that were allowed for good
        self.turn: Turn | None = None

    @property
    def id(self) -> str:
        return self.path.stem

    def add(self, *items: dict) -> None:
        self.state["items"] += items
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(json.dumps(self.state))

    def server_of(self, tool: str) -> McpServer | None:
        return next((s for s in self.servers if any(t["name"] == tool for t in s.tools)), None)

    def told(self) -> dict:
        """What session/new and session/load answer beside the id."""
        modes = [{"id": mode, "name": mode} for mode in MODES]
        choices = [{"value": model, "name": model} for model in MODELS]
        model = {
            "id": "model",
            "name": "Model",
            "category": "model",
            "type": "select",
            "currentValue": self.state["model"],
            "options": choices,
        }
        return {
            "modes": {"currentModeId": self.state["mode"], "availableModes": modes},
            "configOptions": [model],
        }


class Turn:
    """One prompt of a session; it runs in a thread of its own."""

    def __init__(self, session: Session, text: str) -> None:
        self.session = session
        self.wire = session.agent.wire
        self.text = text
        self.interrupted = threading.Event()
        self.connection: socket.socket | None = None
        self.usage = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}

    def tell(self, kind: str, /, **fields: Any) -> None:
        update = {"sessionUpdate": kind, **fields}
        params = {"sessionId": self.session.id, "update": update}
        self.wire.say({"method": "session/update", "params": params})

    def say_text(self, text: str) -> None:
        self.tell("agent_message_chunk", content={"type": "text", "text": text})

    def think(self, text: str) -> None:
        self.tell("agent_thought_chunk", content={"type": "text", "text": text})

    def update_call(self, call_id: str, **fields: Any) -> None:
        self.tell("tool_call_update", toolCallId=call_id, **fields)

    def ask(self, method: str, **params: Any) -> Any:
        """Ask the client; raise RefusedError for an error."""
        params = {"sessionId": self.session.id, **params}
        answer = self.wire.ask(method, params, self.interrupted)
        if "error" in answer:
            raise RefusedError(answer["error"]["code"], answer["error"]["message"])
        return answer["result"]

    def may(self, call_id: str, **call: Any) -> Any:
        """Ask leave for a call; return the option that was taken."""
        told = {"toolCallId": call_id, "status": "pending", **call}
        answer = self.ask("session/request_permission", toolCall=told, options=_OPTIONS)
        return answer["outcome"].get("optionId")

    def run(self) -> dict:
        """Play the turn; return the answer to the prompt."""
        try:
            while calls := self._respond():
                self._work(calls)
        except CancelledError:
            used = {"usage": self.usage} if self.usage["totalTokens"] else {}
            return {"stopReason": "cancelled", **used}
        except OSError as error:
            if self.interrupted.is_set():
                return {"stopReason": "cancelled"}
            told = {"details": f"fetch failed: {error}"}
            raise RefusedError(-32603, "Internal error", told) from error
        return {"stopReason": "end_turn", "usage": self.usage}

    def interrupt(self) -> None:
        self.interrupted.set()
        if self.connection is not None:
            with suppress(OSError):  # it has ended by itself
                self.connection.shutdown(socket.SHUT_RDWR)

    def _respond(self) -> list[dict]:
        """Ask the model once; return the calls of its response."""
        calls = []
        for event in self._events():
            if self.interrupted.is_set():
                raise CancelledError
            kind, item = event["type"], event.get("item", {})
            if kind == "response.output_text.delta":
                self.say_text(event["delta"])
            elif kind == "response.output_item.done":
                self.session.add(item)
                calls += [item] if item["type"] == "function_call" else []
            elif kind == "response.completed":
                used = event["response"]["usage"]
                self.usage["inputTokens"] += used["input_tokens"]
                self.usage["outputTokens"] += used["output_tokens"]
                self.usage["totalTokens"] += used["input_tokens"] + used["output_tokens"]
        if self.interrupted.is_set():
            raise CancelledError
        return calls

    def _work(self, calls: list[dict]) -> None:
        """Work on all calls of a response at once."""
        outputs: dict[str, str] = {}
        workers = [
            threading.Thread(target=self._call, args=(call, outputs), daemon=True) for call in calls
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if self.interrupted.is_set():
            raise CancelledError
        for call in calls:
            call_id = call["call_id"]
            output = outputs.get(call_id, "cut off")
            self.session.add({"type": "function_call_output", "call_id": call_id, "output": output})

    def _call(self, call: dict, outputs: dict[str, str]) -> None:
        arguments = json.loads(call["arguments"])
        works = {"exec_command": self._shell, "write_file": self._write, "read_file": self._read}
        work = works.get(call["name"], self._mcp)
        with suppress(CancelledError):
            outputs[call["call_id"]] = work(call["call_id"], call["name"], arguments)

    def _mcp(self, call_id: str, name: str, arguments: dict) -> str:
        server = self.session.server_of(name)
        if server is None:
            return f"there is no tool {name}"
        own = f"mcp__{server.name}__{name}"
        about = {"title": own, "kind": "other", "_meta": {"claudeCode": {"toolName": own}}}
        self.tell("tool_call", toolCallId=call_id, status="pending", rawInput={}, **about)
        if server.name not in self.session.allowed:
            taken = self.may(call_id, rawInput=arguments, **about)
            if taken not in ("once", "always"):
                return "the user said no"
            self.session.allowed |= {server.name} if taken == "always" else set()
        self.update_call(call_id, status="in_progress", rawInput=arguments)
        text, failed = server.call(name, arguments, self.interrupted)
        content = [{"type": "content", "content": {"type": "text", "text": text}}]
        self.update_call(call_id, status="failed" if failed else "completed", content=content)
        return text

    def _shell(self, call_id: str, _: str, arguments: dict) -> str:
        command = arguments["cmd"]
        self.tell("tool_call", toolCallId=call_id, status="pending", title="Shell", kind="execute")
        about = {"title": f"`{command}`", "kind": "execute", "rawInput": {"command": command}}
        if self.may(call_id, **about) != "once":
            return "the user said no"  # and nothing more is told of the call
        self.update_call(call_id, status="in_progress")
        cwd = self.session.state["cwd"]
        done = subprocess.run(["bash", "-c", command], cwd=cwd, capture_output=True, text=True)
        output = done.stdout + done.stderr
        content = [{"type": "content", "content": {"type": "text", "text": output}}]
        status = "completed" if done.returncode == 0 else "failed"
        self.update_call(call_id, status=status, content=content)
        return output

    def _write(self, call_id: str, _: str, arguments: dict) -> str:
        """Show a diff, then write by way of the client; `other` is written instead, if given."""
        path, text = arguments["path"], arguments["content"]
        diff = {"type": "diff", "path": path, "oldText": None, "newText": text}
        about = {"title": f"Write {path}", "kind": "edit", "locations": [{"path": path}]}
        if self.may(call_id, content=[diff], **about) != "once":
            return "the user said no"
        try:
            self.ask("fs/write_text_file", path=path, content=arguments.get("other", text))
        except RefusedError as error:
            self.update_call(call_id, status="failed", content=_text(str(error)))
            return str(error)
        self.update_call(call_id, status="completed", content=[diff])
        return "written"

    def _read(self, call_id: str, _: str, arguments: dict) -> Any:
        path = arguments["path"]
        about = {"title": f"Read {path}", "kind": "read", "locations": [{"path": path}]}
        if arguments.pop("untold", False):  # it reads without a call of its own
            try:
                return self.ask("fs/read_text_file", **arguments)["content"]
            except RefusedError as error:
                return str(error)
        self.tell("tool_call", toolCallId=call_id, status="in_progress", **about)
        try:
            text = self.ask("fs/read_text_file", **arguments)["content"]
        except RefusedError as error:
            self.update_call(call_id, status="failed", content=_text(str(error)))
            return str(error)
        self.update_call(call_id, status="completed", content=_text(text))
        return text

    def _events(self):
        """Yield the server-sent events of a model response."""
        tools = [tool for server in self.session.servers for tool in server.tools]
        body = json.dumps(
            {
                "model": self.session.state["model"],
                "input": self.session.state["items"],
                "tools": [{"type": "function", "name": tool["name"]} for tool in tools],
                "stream": True,
            }
        ).encode()
        address, _, path = os.environ["FAKE_URL"].removeprefix("http://").partition("/")
        host, _, port = address.partition(":")
        with socket.create_connection((host, int(port))) as self.connection:
            head = f"POST /{path}/responses HTTP/1.1\r\nHost: {host}\r\n"
            head += f"Content-Length: {len(body)}\r\n\r\n"
            self.connection.sendall(head.encode() + body)
            with self.connection.makefile("rb") as answer:
                status = int(answer.readline().split()[1])
                while answer.readline().strip():
                    pass  # headers
                if status == 401:
                    raise RefusedError(-32000, "Authentication required")
                if status != 200:
                    raise RefusedError(-32603, "Internal error", {"details": f"HTTP {status}"})
                for line in answer:
                    if line.startswith(b"data: "):
                        yield json.loads(line[len(b"data: ") :])
        self.connection = None


class Agent:
    """Answers the client."""

    def __init__(self, home: Path, fault: dict) -> None:
        self.wire = Wire(sys.stdout.buffer)
        self.home = home
        self.sessions: dict[str, Session] = {}
        self.fault = fault

    def serve(self) -> None:
        """Read until the client closes its end."""
        if "start" in self.fault:
            self.fault["start"](self)
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "method" not in message:
                self.wire.settle(message)
            elif message["method"] == "session/cancel":
                self._cancel(message["params"])
            else:
                threading.Thread(target=self._answer, args=(message,), daemon=True).start()
        if "end" in self.fault:
            self.fault["end"](self)

    def _cancel(self, params: dict) -> None:
        turn = self.sessions[params["sessionId"]].turn
        if turn is not None and "session/cancel" not in self.fault:
            turn.interrupt()

    def _answer(self, message: dict) -> None:
        method, params = message["method"], message["params"]
        handler = getattr(self, method.replace("/", "_"), self.unknown)
        try:
            result = self.fault[method](self, params) if method in self.fault else handler(params)
        except RefusedError as error:
            self.wire.say({"id": message["id"], "error": error.body})
        else:
            if result is not None:
                self.wire.say({"id": message["id"], "result": result})

    def _session(self, params: dict) -> Session:
        return self.sessions[params["sessionId"]]

    def unknown(self, _: dict) -> dict:
        raise RefusedError(-32601, "Method not found")

    def initialize(self, params: dict) -> dict:
        self.capabilities = params["clientCapabilities"]
        mcp = {"http": bool(os.environ.get("FAKE_HTTP")), "sse": False}
        prompt = {"image": bool(os.environ.get("FAKE_IMAGES"))}
        told = {"loadSession": True, "mcpCapabilities": mcp, "promptCapabilities": prompt}
        return {"protocolVersion": 1, "agentCapabilities": told, "authMethods": []}

    def session_new(self, params: dict) -> dict:
        number = len(list((self.home / "sessions").glob("*")))
        path = self.home / "sessions" / f"session-{number}-{os.getpid()}.json"
        state = {"cwd": params["cwd"], "items": [], "mode": "free", "model": MODELS[0]}
        servers = [told for told in params["mcpServers"] if "command" in told]
        session = self.sessions[path.stem] = Session(self, path, state, servers)
        return {"sessionId": session.id, **session.told()}

    def session_load(self, params: dict) -> dict:
        path = self.home / "sessions" / f"{params['sessionId']}.json"
        if not path.exists():
            raise RefusedError(-32603, "Internal error", {"details": "no such session"})
        state = json.loads(path.read_text())
        session = self.sessions[path.stem] = Session(self, path, state, params["mcpServers"])
        Turn(session, "").say_text("what was said before")  # the replay
        return session.told()

    def session_set_mode(self, params: dict) -> dict:
        self._session(params).state["mode"] = params["modeId"]
        return {}

    def session_set_config_option(self, params: dict) -> dict:
        session = self._session(params)
        session.state[params["configId"]] = params["value"]
        return session.told()

    def session_prompt(self, params: dict) -> Any:
        session = self._session(params)
        text = "\n".join(part.get("text") or json.dumps(part) for part in params["prompt"])
        turn = session.turn = Turn(session, text)
        if "turn" in self.fault:
            return self.fault["turn"](turn)
        content = [{"type": "input_text", "text": text}]
        session.add({"type": "message", "role": "user", "content": content})
        return turn.run()


def _text(text: str) -> list[dict]:
    return [{"type": "content", "content": {"type": "text", "text": text}}]


def _fault(arguments: list[str]) -> Any:
    """Return what is to go wrong: nothing, unless the arguments begin with an order."""
    if not arguments or not arguments[0].startswith("--fault="):
        return {}
    sys.path[:0] = [str(_HERE.parents[3]), str(_HERE.parents[2] / "prsm_testing")]
    from prsm_testing.faults import Marks

    from plugins.prsm_acp.tests.faults import FAULTS

    return FAULTS[str(Marks.take(arguments))]


def main(arguments: list[str]) -> None:
    """Tell the version, or serve."""
    fault = _fault(arguments)
    if "--version" in arguments:
        tell = fault.get("version") or (lambda: sys.stdout.write(f"{VERSION}\n"))
        tell()
        return
    Agent(Path(os.environ.get("FAKE_HOME", ".")), fault).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
