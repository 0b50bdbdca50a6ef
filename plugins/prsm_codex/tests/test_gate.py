"""The hook as Codex runs it, against the gate: whatever fails, nothing is allowed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prsm_codex import hooks
from prsm_codex.gate import Gate

from prsm_core.testing.doubles import open_services, until

CALL = {"session_id": "t1", "tool_name": "Bash", "tool_input": {"command": "rm x"}}


class Person:
    """Answers what is asked as told; `waits` lets it take its time."""

    def __init__(self, reason=None, waits=None):
        self.reason = reason
        self.waits = waits
        self.asked = []

    async def on_hook(self, payload):
        self.asked.append(payload)
        if self.waits is not None:
            await self.waits.wait()
        return self.reason


class Outcome:
    """How a hook ended, and what Codex would make of it."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out.decode(), err.decode()

    @property
    def allows(self):
        """Codex lets everything run but what is refused in one of two ways."""
        denies = self.code == 0 and '"permissionDecision": "deny"' in self.out
        return not denies and not (self.code == 2 and self.err.strip())

    @property
    def reason(self):
        return json.loads(self.out)["hookSpecificOutput"]["permissionDecisionReason"]


class Hook:
    """The hook's process."""

    def __init__(self, process):
        self.process = process

    @classmethod
    async def start(cls, env, call=CALL):
        process = await asyncio.create_subprocess_exec(
            "/bin/bash",
            "-c",
            hooks.COMMAND,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": os.environ["PATH"], **env},
        )
        assert process.stdin is not None
        process.stdin.write(call if isinstance(call, bytes) else json.dumps(call).encode())
        process.stdin.close()
        return cls(process)

    async def outcome(self):
        async with asyncio.timeout(20):
            out, err = await asyncio.gather(self.process.stdout.read(), self.process.stderr.read())
            return Outcome(await self.process.wait(), out, err)


async def run(env, call=CALL):
    return await (await Hook.start(env, call)).outcome()


@asynccontextmanager
async def opened(folder, person, **options):
    """Yield a gate that lets a person's process ask, and that process's environment."""
    async with open_services(folder) as services:
        gate = Gate(folder, services, **options)
        try:
            yield gate, await gate.admit(person)
        finally:
            await gate.aclose()


async def test_a_call_that_is_allowed_says_nothing_to_codex(tmp_path):
    person = Person()
    async with opened(tmp_path, person) as (_, env):
        outcome = await run(env)
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    assert person.asked == [CALL]


async def test_a_call_that_is_refused_carries_its_reason(tmp_path):
    async with opened(tmp_path, Person("not in here")) as (_, env):
        outcome = await run(env)
    assert not outcome.allows
    assert outcome.reason == "not in here"


async def test_a_large_call_arrives_whole(tmp_path):
    call = {**CALL, "tool_input": {"command": "x" * 2**20}}
    person = Person()
    async with opened(tmp_path, person) as (_, env):
        assert (await run(env, call)).allows
    assert person.asked == [call]


async def test_the_socket_may_have_a_long_path_and_is_its_owners_alone(tmp_path):
    folder = tmp_path / ("d" * 120)
    folder.mkdir(mode=0o700)
    async with opened(folder, Person("no")) as (_, env):
        assert (await run(env)).reason == "no"
        (path,) = folder.glob("*.sock")
        assert str(path) == env["PRSM_HOOK_SOCKET"]
        assert path.stat().st_mode & 0o777 == 0o600
    assert list(folder.glob("*.sock")) == []


@pytest.mark.parametrize("call", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
async def test_a_call_that_cannot_be_read_is_refused(tmp_path, call):
    person = Person()
    async with opened(tmp_path, person) as (_, env):
        assert "cannot be read" in (await run(env, call)).reason
    assert person.asked == []


@pytest.mark.parametrize("token", ["", "0" * 64, "\u00fc"])
async def test_a_wrong_token_is_refused(tmp_path, token):
    person = Person()
    async with opened(tmp_path, person) as (_, env):
        assert not (await run({**env, "PRSM_HOOK_TOKEN": token})).allows
    assert person.asked == []


async def test_one_process_cannot_ask_as_another(tmp_path):
    first, second = Person("first"), Person("second")
    async with opened(tmp_path, first) as (gate, env):
        other = await gate.admit(second)
        assert (await run(env)).reason == "first"
        assert (await run(other)).reason == "second"
        gate.dismiss(first)
        assert "token" in (await run(env)).reason


async def test_a_socket_that_is_gone_refuses(tmp_path):
    async with opened(tmp_path, Person()) as (_, env):
        pass
    outcome = await run(env)
    assert not outcome.allows
    assert "could not be asked" in outcome.err
    assert "did not run" in outcome.err


async def test_an_engine_that_goes_away_while_it_is_asked_refuses(tmp_path):
    person = Person(waits=asyncio.Event())
    async with opened(tmp_path, person) as (_, env):
        hook = await Hook.start(env)
        await until(lambda: person.asked)
    assert not (await hook.outcome()).allows


async def test_an_engine_that_answers_too_late_refuses(tmp_path):
    person = Person(waits=asyncio.Event())
    async with opened(tmp_path, person, seconds=0.2) as (_, env):
        outcome = await run(env)
        person.waits.set()
    assert not outcome.allows
    assert "timed out" in outcome.err


async def test_an_answer_that_is_not_one_refuses(tmp_path):
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        env = hooks.environment(hooks.CLIENT, path, "t", 10)
        for answer in (b"", b"allow", b"maybe\n", b"Allow\n"):
            hook = await Hook.start(env)
            connection, _ = await asyncio.to_thread(listener.accept)
            with connection:
                while await asyncio.to_thread(connection.recv, 2**16):
                    pass
                connection.sendall(answer)
            outcome = await hook.outcome()
            assert outcome.allows is (answer == b"allow")  # the end of the line is not needed


@pytest.mark.parametrize(
    "changes",
    [
        {"PRSM_HOOK_PYTHON": "/no/such/python"},
        {"PRSM_HOOK_CLIENT": "/no/such/client.py"},
        {"PRSM_HOOK_SECONDS": "soon"},
        {"PRSM_HOOK_PYTHON": "/bin/false"},
    ],
)
async def test_a_hook_that_cannot_work_refuses(tmp_path, changes):
    async with opened(tmp_path, Person()) as (_, env):
        assert not (await run({**env, **changes})).allows


async def test_without_its_variables_it_refuses():
    assert not (await run({})).allows


async def test_a_client_that_is_killed_refuses(tmp_path):
    person = Person(waits=asyncio.Event())
    async with opened(tmp_path, person) as (_, env):
        hook = await Hook.start(env)
        await until(lambda: person.asked)
        os.kill(client_of(hook.process.pid), signal.SIGKILL)
        outcome = await hook.outcome()
        person.waits.set()
    assert not outcome.allows


def client_of(pid):
    """Return the process id of the python below a hook."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for child in children:
        name = Path(f"/proc/{child}/comm").read_text()
        return int(child) if name.startswith("python") else client_of(child)
    return int(pid)


async def test_what_a_dead_engine_left_behind_is_removed(tmp_path):
    dead = tmp_path / "hook-99999999-aa.sock"
    ours = tmp_path / f"hook-{os.getpid()}-aa.sock"
    dead.touch()
    ours.touch()
    async with opened(tmp_path, Person()):
        assert not dead.exists()
        assert ours.exists()
