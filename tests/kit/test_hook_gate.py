"""The hook as a vendor runs it, against the gate: whatever fails, nothing is allowed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prsm_testing.doubles import open_services, until
from prsm_testing.fake_clock import FakeClock

from prsm_core.kit.hook_gate import MAX_ASKED, MAX_READ, HookGate
from prsm_core.kit.local_socket import short_name
from tests.engine.hostile import sockets_of, state_of
from tests.foreign_user import needs_root, said_to_nobody

CALL = {"session_id": "t1", "tool_name": "Bash", "tool_input": {"command": "rm x"}}


def refusal(reason):
    return f"no: {reason}"


class Person:
    """Answers what is asked as told; `waits` lets it take its time."""

    def __init__(self, answer="", waits=None):
        self.answer = answer
        self.waits = waits
        self.asked = []

    async def on_hook(self, event):
        self.asked.append(event)
        if self.waits is not None:
            await self.waits.wait()
        return self.answer


class Outcome:
    """How a hook ended, and what a vendor would make of it."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out.decode(), err.decode()

    @property
    def allows(self):
        """Vendors let everything run but what is refused in one of two ways."""
        denies = self.code == 0 and self.out.startswith("no: ")
        return not denies and not (self.code == 2 and self.err.strip())


class Hook:
    """The hook's process."""

    def __init__(self, process):
        self.process = process

    @classmethod
    async def start(cls, env, call=CALL):
        process = await asyncio.create_subprocess_exec(
            "/bin/bash",
            "-c",
            HookGate.command,
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
async def opened(folder, person, *, clock=None, **options):
    """Yield a gate that lets a person's process ask, and that process's environment."""
    async with open_services(folder, clock=clock) as services:
        gate = HookGate(folder, services, refusal=refusal, **options)
        try:
            yield gate, await gate.admit(person.on_hook)
        finally:
            await gate.aclose()


@pytest.mark.parametrize("answer", ["", "{}", "a\nb\n", "\u00e9" * 100_000])
async def test_the_hook_says_what_was_answered(tmp_path, answer):
    person = Person(answer)
    async with opened(tmp_path, person) as (_, env):
        outcome = await run(env)
    assert (outcome.code, outcome.out, outcome.err) == (0, answer, "")
    assert person.asked == [CALL]


async def test_a_large_call_arrives_whole(tmp_path):
    call = {**CALL, "tool_input": {"command": "x" * 2**20}}
    person = Person()
    async with opened(tmp_path, person) as (_, env):
        assert (await run(env, call)).allows
    assert person.asked == [call]


async def test_the_socket_may_have_a_long_path_and_is_its_owners_alone(tmp_path):
    folder = tmp_path / ("d" * 120)
    folder.mkdir(mode=0o700)
    async with opened(folder, Person("yes")) as (_, env):
        assert (await run(env)).out == "yes"
        (path,) = folder.glob("*.sock")
        assert str(path) == env["PRSM_HOOK_SOCKET"]
        assert path.stat().st_mode & 0o777 == 0o600
    assert list(folder.glob("*.sock")) == []


@pytest.mark.parametrize("call", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
async def test_a_call_that_cannot_be_read_is_refused(tmp_path, call):
    person = Person()
    async with opened(tmp_path, person) as (_, env):
        assert "cannot be read" in (await run(env, call)).out
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
        other = await gate.admit(second.on_hook)
        assert (await run(env)).out == "first"
        assert (await run(other)).out == "second"
        gate.dismiss(first.on_hook)
        refused = await run(env)
        assert not refused.allows
        assert "token" in refused.out


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
        client = client_of(hook.process.pid)
        before = sockets_of(client)
    # The vendor's program is killed next: a refusal would be told to its model before.
    await until(lambda: sockets_of(client) < before and state_of(client) == "S")
    assert not (await hook.outcome()).allows


async def test_an_engine_that_answers_too_late_refuses(tmp_path):
    person = Person(waits=asyncio.Event())
    async with opened(tmp_path, person, seconds=0.2) as (_, env):
        outcome = await run(env)
        person.waits.set()
    assert not outcome.allows
    assert "timed out" in outcome.err


async def test_an_answer_that_is_not_whole_refuses(tmp_path):
    path = tmp_path / "s"
    async with opened(tmp_path, Person()) as (_, env):
        env["PRSM_HOOK_SOCKET"] = str(path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        for answer in (b"", b"5", b"5\n", b"5\nallow or", b"5\nallo", b"x\nallow"):
            hook = await Hook.start(env)
            connection, _ = await asyncio.to_thread(listener.accept)
            with connection:
                while await asyncio.to_thread(connection.recv, 2**16):
                    pass
                connection.sendall(answer)
            assert not (await hook.outcome()).allows


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


@asynccontextmanager
async def streams(env, count):
    """Open connections that say nothing yet; yield their readers and writers."""
    with short_name(Path(env["PRSM_HOOK_SOCKET"])) as name:
        opened = [await asyncio.open_unix_connection(name) for _ in range(count)]
    try:
        yield opened
    finally:
        for _, writer in opened:
            writer.close()


async def say(env, writer):
    writer.write(f"{env['PRSM_HOOK_TOKEN']}\n{{}}".encode())
    writer.write_eof()
    await writer.drain()


async def test_who_says_nothing_is_let_go_of(tmp_path):
    async with (
        opened(tmp_path, Person(), clock=FakeClock()) as (_, env),
        streams(env, 1) as ((reader, _),),
        asyncio.timeout(60),
    ):
        assert await reader.read() == b""


async def test_more_than_are_read_at_once_are_refused(tmp_path):
    async with opened(tmp_path, Person()) as (_, env), streams(env, MAX_READ + 1) as clients:
        async with asyncio.timeout(60):
            reads = [asyncio.ensure_future(reader.read()) for reader, _ in clients]
            done, waiting = await asyncio.wait(reads, return_when=asyncio.FIRST_COMPLETED)
            assert [task.result() for task in done] == [b""]
            for _, writer in clients:
                writer.write_eof()  # who asks nothing gets a refusal
            told = await asyncio.gather(*waiting)
    assert len(told) == MAX_READ
    assert all(b"no: the token" in answer for answer in told)


async def test_more_than_one_asker_may_ask_at_once_is_refused(tmp_path):
    person = Person("yes", waits=asyncio.Event())
    async with opened(tmp_path, person) as (gate, env), streams(env, MAX_ASKED + 1) as clients:
        other = await gate.admit(Person("another").on_hook)
        async with asyncio.timeout(60):
            for _, writer in clients:
                await say(env, writer)
            reads = [asyncio.ensure_future(reader.read()) for reader, _ in clients]
            done, waiting = await asyncio.wait(reads, return_when=asyncio.FIRST_COMPLETED)
            assert (await run(other)).out == "another"
            person.waits.set()
            answers = await asyncio.gather(*waiting)
    assert b"too much" in done.pop().result()
    assert answers == [b"3\nyes"] * MAX_ASKED


async def test_what_is_being_decided_when_a_process_is_dismissed_is_refused(tmp_path):
    person = Person(waits=asyncio.Event())
    async with opened(tmp_path, person) as (gate, env):
        hook = await Hook.start(env)
        await until(lambda: person.asked)
        gate.dismiss(person.on_hook)
        assert not (await hook.outcome()).allows


@needs_root
async def test_another_user_is_refused_and_told_whatever_token_it_has(tmp_path):
    person = Person("yes")
    async with opened(tmp_path, person) as (_, env):
        told = f"{env['PRSM_HOOK_TOKEN']}\n{json.dumps(CALL)}".encode()
        said = await said_to_nobody(Path(env["PRSM_HOOK_SOCKET"]), told)
    assert said.partition(b"\n")[2] == b"no: this engine belongs to another user"
    assert person.asked == []
