"""A small `gemini` in Python, headless: the same files, hooks, events, and requests to a model.

    python -I -S fake_gemini.py [--fault=NAME --marks=FOLDER] -m MODEL --skip-trust
        --policy FILE -o stream-json --approval-mode default (--session-id | --resume) ID

The prompt comes on stdin.

It keeps conversations below GEMINI_CLI_HOME as the real one does, every answer twice included.
With a fault it does at one point what `faults.py` says, and needs no model server.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import threading
import tomllib
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

VERSION = "0.61.0"
_HERE = Path(__file__)


class FailedError(Exception):
    """The turn ends with an error: what the result says, and the exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Out:
    """Events on stdout."""

    def raw(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def say(self, kind: str, **fields: Any) -> None:
        event = {"type": kind, "timestamp": "2026-01-01T00:00:00.000Z", **fields}
        self.raw(json.dumps(event).encode() + b"\n")

    def text(self, text: str) -> None:
        self.say("message", role="assistant", content=text, delta=True)

    def result(self, status: str = "success", **fields: Any) -> None:
        self.say("result", **{"status": status, "stats": {**USAGE}, **fields})


USAGE = {"total_tokens": 0, "input_tokens": 0, "output_tokens": 0, "cached": 0}


class Mcp:
    """A client of one MCP server over stdio; calls may overlap."""

    def __init__(self, told: dict) -> None:
        env = {"PATH": os.environ["PATH"], **told["env"]}
        argv = [told["command"], *told["args"]]
        pipe = subprocess.PIPE
        process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, env=env)
        self._stdin: Any = process.stdin
        self._stdout: Any = process.stdout
        self._answers: dict[int, Any] = {}
        self._news = threading.Condition()
        self._number = 0
        threading.Thread(target=self._read, daemon=True).start()
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "fake-gemini", "version": VERSION},
        }
        self.ask("initialize", hello)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.tools = [tool["name"] for tool in self.ask("tools/list", {})["tools"]]

    def ask(self, method: str, params: dict) -> Any:
        with self._news:
            self._number += 1
            number = self._number
            self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            self._news.wait_for(lambda: number in self._answers)
            return self._answers.pop(number)

    def _send(self, message: dict) -> None:
        self._stdin.write(json.dumps(message).encode() + b"\n")
        self._stdin.flush()

    def _read(self) -> None:
        for line in self._stdout:
            message = json.loads(line)
            with self._news:
                self._answers[message.get("id")] = message.get("result") or {}
                self._news.notify_all()


class Chat:
    """The conversation: what is sent to the model, and the file it is kept in."""

    def __init__(self, home: Path, session_id: str, *, resume: bool) -> None:
        folder = home / ".gemini" / "tmp" / "work" / "chats"
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"session-2026-01-01T00-00-{session_id[:8]}.jsonl"
        self.contents: list[dict] = []
        if resume != self.path.exists():
            sys.stderr.write("Error resuming session: Invalid session identifier\n")
            sys.exit(42)
        if resume:
            self._load()
        else:
            self._write({"sessionId": session_id, "kind": "main"})

    def user(self, parts: list[dict], *, record: bool = True) -> None:
        self.contents.append({"role": "user", "parts": parts})
        if record:
            self._write({"id": str(uuid.uuid4()), "type": "user", "content": parts})

    def model(self, parts: list[dict]) -> str:
        self.contents.append({"role": "model", "parts": parts})
        text = "".join(part.get("text", "") for part in parts)
        record = {"id": str(uuid.uuid4()), "type": "gemini", "content": text}
        self._write(record)
        return record["id"]

    def results(self, message: str, calls: list[dict], answers: list[dict]) -> None:
        told = [
            {**call, "result": [answer], "status": "success"}
            for call, answer in zip(calls, answers, strict=True)
        ]
        self._write({"id": message, "type": "gemini", "content": "", "toolCalls": told})

    def forget(self) -> None:
        """Take back the prompt of a request that failed."""
        self._write({"$set": {"messages": []}} if len(self.contents) < 2 else {"$set": {}})

    def _write(self, record: dict) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def _load(self) -> None:
        found: dict[str, dict] = {}
        for line in self.path.read_text().splitlines():
            record = json.loads(line)
            if "messages" in record.get("$set", {}):
                found = {m["id"]: m for m in record["$set"]["messages"]}
            elif "id" in record:
                found[record["id"]] = record
        for message in found.values():
            if message["type"] == "user":
                self.contents.append({"role": "user", "parts": message["content"]})
                continue
            calls = message.get("toolCalls", ())
            parts = [{"text": message["content"]}] if message["content"] else []
            parts += [{"functionCall": {k: c[k] for k in ("id", "name", "args")}} for c in calls]
            self.contents.append({"role": "model", "parts": parts})
            if calls:
                results = [part for call in calls for part in call["result"]]
                self.contents.append({"role": "user", "parts": results})


class Turn:
    """One run of the program."""

    def __init__(self, options: argparse.Namespace, prompt: str, out: Out) -> None:
        home = Path(os.environ["GEMINI_CLI_HOME"])
        self.settings = json.loads((home / ".gemini" / "settings.json").read_text())
        self.rules = tomllib.loads(Path(options.policy).read_text())["rule"]
        self.role = (home / ".gemini" / "GEMINI.md").read_text()
        self.model = options.m
        self.out = out
        self.prompt = prompt
        session_id = options.resume or options.session_id
        self.chat = Chat(home, session_id, resume=bool(options.resume))
        self.mcp = {name: Mcp(told) for name, told in self.settings["mcpServers"].items()}
        self.stopped = False
        out.say("init", session_id=session_id, model=options.m)

    def run(self) -> None:
        if self.hook("BeforeAgent", "", prompt=self.prompt).get("decision") == "deny":
            raise FailedError("Agent execution blocked", 1)
        self.out.say("message", role="user", content=self.prompt)
        self.chat.user([{"text": self.prompt}])
        while not self.stopped:
            parts = self.ask_model()
            message = self.chat.model(parts)
            calls = [part["functionCall"] for part in parts if "functionCall" in part]
            if not calls:
                return
            self.call_all(message, calls)

    def hook(self, event: str, tool: str, **fields: Any) -> Any:
        """Run a hook; like the real one, take silence and most failures for a yes."""
        import re

        for group in self.settings["hooks"].get(event, ()):
            if re.search(group.get("matcher", ""), tool):
                told = {"hook_event_name": event, "tool_name": tool, **fields}
                hook = group["hooks"][0]
                done = subprocess.run(
                    ["bash", "-c", hook["command"]],
                    env={**os.environ, **hook["env"]},
                    input=json.dumps(told).encode(),
                    capture_output=True,
                    check=False,
                )
                if done.returncode == 2:
                    return {"decision": "deny", "reason": done.stderr.decode().strip()}
                return json.loads(done.stdout or b"{}")
        return {}

    def call_all(self, message: str, calls: list[dict]) -> None:
        answers: list[dict] = [{} for _ in calls]
        for call in calls:
            call["event"] = f"{call['name']}__{call['id']}"
            self.out.say(
                "tool_use", tool_name=call["name"], tool_id=call["event"], parameters=call["args"]
            )
        threads = [
            threading.Thread(target=self.call, args=(call, answers, n))
            for n, call in enumerate(calls)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kept = [{key: call[key] for key in ("id", "name", "args")} for call in calls]
        self.chat.results(message, kept, answers)
        self.chat.user(answers)

    def call(self, call: dict, answers: list[dict], number: int) -> None:
        output, error = self.execute(call)
        if error is None:
            self.out.say("tool_result", tool_id=call["event"], status="success", output=output)
        else:
            told = {"type": error, "message": output}
            self.out.say(
                "tool_result", tool_id=call["event"], status="error", output=output, error=told
            )
        answer = {"id": call["id"], "name": call["name"], "response": {"output": output}}
        answers[number] = {"functionResponse": answer}

    def execute(self, call: dict) -> tuple[str, str | None]:
        name, arguments = call["name"], call["args"]
        if not self.may(name):
            return f'Tool "{name}" not found', "tool_not_registered"
        asked = self.hook("BeforeTool", name, tool_input=arguments)
        if asked.get("decision") == "deny":
            return f"Tool execution blocked: {asked['reason']}", "policy_violation"
        if name == "run_shell_command":
            done = subprocess.run(
                ["bash", "-c", arguments["command"]], capture_output=True, text=True, check=False
            )
            return done.stdout.strip(), None
        server, _, tool = name.removeprefix("mcp_").partition("_")
        result = self.mcp[server].ask("tools/call", {"name": tool, "arguments": arguments})
        text = "\n".join(part["text"] for part in result["content"])
        if result.get("isError"):
            return f"MCP tool {tool!r} reported tool error: {text}", "mcp_tool_error"
        after = self.hook("AfterTool", name, tool_response={"returnDisplay": text})
        if after.get("continue") is False:
            self.stopped = True
            return after["stopReason"], None
        return text, None

    def may(self, name: str) -> bool:
        rules = sorted(self.rules, key=lambda rule: -rule["priority"])
        for rule in rules:
            names = rule["toolName"] if isinstance(rule["toolName"], list) else [rule["toolName"]]
            if name in names or (names == ["*"] and "mcpName" not in rule):
                return bool(rule["decision"] == "allow")
        return False

    def ask_model(self) -> list[dict]:
        names = [f"mcp_{s}_{tool}" for s, mcp in self.mcp.items() for tool in mcp.tools]
        body = {
            "contents": self.chat.contents,
            "systemInstruction": {"parts": [{"text": self.role}]},
            "tools": [{"functionDeclarations": [{"name": name} for name in names]}],
        }
        where = urlsplit(os.environ["GOOGLE_GEMINI_BASE_URL"])
        connection = http.client.HTTPConnection(where.hostname or "", where.port)
        path = f"/v1beta/models/{self.model}:streamGenerateContent?alt=sse"
        connection.request("POST", path, json.dumps(body))
        response = connection.getresponse()
        if response.status != 200:
            if len(self.chat.contents[-1]["parts"][0].get("text", "")):
                self.chat.contents.pop()
                self.chat.forget()
            raise FailedError(f"[API Error: {response.read().decode()}]", response.status & 0xFF)
        return self.parts_of(response)

    def parts_of(self, response: http.client.HTTPResponse) -> list[dict]:
        text, parts, finished = "", [], False
        for line in response:
            if not line.startswith(b"data: "):
                continue
            chunk = json.loads(line.removeprefix(b"data: "))
            candidate = chunk["candidates"][0]
            finished = finished or "finishReason" in candidate
            for part in candidate["content"]["parts"]:
                if part.get("text") and not part.get("thought"):
                    text += part["text"]
                    self.out.text(part["text"])
                elif "functionCall" in part:
                    parts.append(part)
            self.count(chunk.get("usageMetadata", {}))
        if not finished:
            self.out.say(
                "error",
                severity="error",
                message="Model stream ended without a finish reason.",
            )
            raise FailedError("", 0)
        return [*([{"text": text}] if text else []), *parts]

    def count(self, told: dict) -> None:
        USAGE["input_tokens"] += told.get("promptTokenCount", 0)
        USAGE["output_tokens"] += told.get("candidatesTokenCount", 0)
        USAGE["cached"] += told.get("cachedContentTokenCount", 0)
        USAGE["total_tokens"] += told.get("totalTokenCount", 0)


def _fault(arguments: list[str]) -> Any:
    """Return what is to go wrong: nothing, unless the arguments begin with an order."""
    if not arguments or not arguments[0].startswith("--fault="):
        return {}
    sys.path[:0] = [str(_HERE.parents[3]), str(_HERE.parents[2] / "prsm_testing")]
    from prsm_testing.faults import Marks

    from plugins.prsm_gemini.tests.faults import FAULTS

    return FAULTS[str(Marks.take(arguments))]


def _misbehave(fault: Any, out: Out) -> int:
    code = fault["turn"](out) or 0
    if "end" in fault:
        sys.stdout.flush()
        fault["end"]()
    return int(code)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", action="store_true")
    for flag in ("-m", "-o", "--policy", "--session-id", "--resume", "--approval-mode"):
        parser.add_argument(flag)
    parser.add_argument("--skip-trust", action="store_true")
    arguments = sys.argv[1:]
    fault = _fault(arguments)
    options = parser.parse_args(arguments)
    out = Out()
    if options.version:
        (fault.get("version") or (lambda: sys.stdout.write(f"{VERSION}\n")))()
        return 0
    if "start" in fault:
        fault["start"]()
    prompt = sys.stdin.read()
    if fault:
        return _misbehave(fault, out)
    try:
        Turn(options, prompt, out).run()
    except FailedError as error:
        fields = {"error": {"type": "unknown", "message": str(error)}} if str(error) else {}
        out.result("error", **fields)
        return error.code
    out.result()
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # whoever still waits for an MCP server does not keep it
