"""The input and output of real processes, and the buffers between them and the engine."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.engine.processes.child import ByteHead, ByteTail, LineBuffer
from prsm_core.engine.processes.launcher import ProcessLauncher, install_child_watcher
from prsm_core.errors import LineTooLongError, ProcessError
from prsm_core.kit.clocks import SystemClock
from tests.engine.hostile import DEADLINE, collect, first_line, python


@pytest.fixture(scope="module", autouse=True)
def _child_watcher():
    """One thread fewer per child on Python 3.11, as a real run has it."""
    install_child_watcher()


@pytest.fixture
async def launcher():
    async with ProcessLauncher(SystemClock()) as launcher:
        yield launcher


async def test_lines_come_without_their_ends_and_the_exit_code_is_kept(launcher):
    process = await launcher.start(
        ["bash", "-c", r"printf 'a\r\n\nb\nno end'; exit 7"], name="lines"
    )
    assert await collect(process) == [b"a", b"", b"b", b"no end"]
    assert await process.wait() == 7
    assert launcher.live == ()


def hold_until_written(fifo, children):
    """Hold the loop, from when a new process is there until it has written all and says so."""
    loop = asyncio.get_running_loop()
    if own_children() == children:
        loop.call_soon(hold_until_written, fifo, children)
    else:
        fifo.read_bytes()


def own_children():
    return Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text()


async def test_what_a_process_writes_before_the_loop_looks_at_it_is_not_lost(launcher, tmp_path):
    """A loop that is busy just then finds the output of a short program complete in its pipes."""
    os.mkfifo(tmp_path / "fifo")
    asyncio.get_running_loop().call_soon(hold_until_written, tmp_path / "fifo", own_children())
    script = f"echo one; echo two; echo problem >&2; echo done > '{tmp_path}/fifo'"
    process = await launcher.start(["bash", "-c", script], name="short")
    assert await collect(process) == [b"one", b"two"]
    assert await process.wait() == 0
    assert process.stderr_tail == "problem\n"


async def test_binary_garbage_passes_unharmed_and_stderr_is_decoded_with_replacement(launcher):
    program = "import os; os.write(1, bytes(range(256)) + b'\\n'); os.write(2, b'\\xff ok')"
    process = await launcher.start(python(program), name="garbage")
    assert b"\n".join(await collect(process)) == bytes(range(256))
    assert await process.wait() == 0
    assert process.stderr_tail == "\N{REPLACEMENT CHARACTER} ok"


async def test_five_megabytes_of_input_are_read_to_their_end(launcher):
    process = await launcher.start(["wc", "-c"], name="wc")
    await process.write(b"x" * 5_000_000)
    process.close_stdin()
    process.close_stdin()
    assert await collect(process) == [b"5000000"]
    with pytest.raises(ProcessError, match="standard input of wc is closed"):
        await process.write(b"more")


async def test_a_writer_to_a_process_that_closes_its_input_gets_an_error(launcher):
    process = await launcher.start(["bash", "-c", "exec <&-; echo closed; sleep 4321"], name="deaf")
    assert await first_line(process) == b"closed"
    with pytest.raises(ProcessError, match="standard input of deaf is closed"):
        await process.write(b"x" * 1_000_000)


async def test_closing_the_input_while_a_writer_waits_loses_nothing_of_it(launcher):
    process = await launcher.start(["bash", "-c", "echo ready; exec wc -c"], name="wc")
    assert await first_line(process) == b"ready"
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
        group.create_task(process.write(b"x" * 1_000_000))
        await asyncio.sleep(0)
        process.close_stdin()
    assert await collect(process) == [b"1000000"]


async def test_a_writer_is_freed_by_the_end_of_a_process_that_never_reads(launcher):
    process = await launcher.start(["sleep", "4321"], name="idle")
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
        writer = group.create_task(_write_error(process))
        await asyncio.sleep(0)
        process.kill()
    assert "idle" in writer.result()


async def test_input_may_be_closed_and_aborted_in_any_order(launcher):
    surprises = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: surprises.append(context))
    for acts in (("close", "abort"), ("abort", "close"), ("abort", "abort")):
        process = await launcher.start(python("import sys; sys.stdin.read()"), name="reader")
        for act in acts:
            getattr(process.stdin, act)()
        assert await process.wait() == 0
    assert surprises == []


async def test_input_that_is_closed_as_the_program_starts_ends(launcher):
    async def read(number):
        process = await launcher.start(["cat"], name=f"reader {number}")
        process.close_stdin()
        return await process.wait()

    async with asyncio.timeout(DEADLINE):
        # Many at once, so that some are held up where they begin to wait.
        assert set(await asyncio.gather(*map(read, range(60)))) == {0}


async def _write_error(process):
    with pytest.raises(ProcessError) as caught:
        await process.write(b"x" * 1_000_000)
    return caught.value.message


async def test_a_line_of_twenty_megabytes_is_refused_and_the_process_can_still_end(launcher):
    program = "import sys; print('first'); sys.stdout.write('x' * 20_000_000)"
    process = await launcher.start(python(program), name="long")
    lines = process.lines()
    assert await anext(lines) == b"first"
    with pytest.raises(LineTooLongError, match="16777216 bytes"):
        await anext(lines)
    assert await process.wait() == 0


async def test_a_line_of_sixteen_megabytes_is_read(launcher):
    process = await launcher.start(python("print('x' * 2**24)"), name="wide")
    assert [len(line) for line in await collect(process)] == [2**24]


async def test_a_hundred_megabytes_of_stderr_are_drained_and_only_the_tail_is_kept(launcher):
    flood = "head -c 100000000 /dev/zero >&2; echo the cause >&2; echo done"
    process = await launcher.start(["bash", "-c", flood], name="flood")
    assert await collect(process) == [b"done"]
    assert await process.wait() == 0
    assert len(process.stderr_tail) == 2**16
    assert process.stderr_tail.endswith("the cause\n")


async def test_a_slow_reader_loses_nothing(launcher):
    process = await launcher.start(["seq", "300000"], name="seq")
    assert await first_line(process) == b"1"
    assert (await collect(process))[-1] == b"300000"
    assert await process.wait() == 0


async def test_a_process_that_closes_its_output_goes_on_until_it_is_stopped(launcher):
    process = await launcher.start(["bash", "-c", "exec >&- 2>&-; sleep 4321"], name="mute")
    assert await collect(process) == []
    assert not process.has_exited
    assert await process.stop() == 128 + signal.SIGTERM


class Pipe(asyncio.ReadTransport):
    """A pipe that only remembers whether it is being read."""

    def __init__(self):
        super().__init__()
        self._reading = True

    def is_reading(self):
        return self._reading

    def pause_reading(self):
        self._reading = False

    def resume_reading(self):
        self._reading = True


async def drained(buffer):
    lines = []
    while (line := await buffer.next()) is not None:
        lines.append(line)
    return lines


@given(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r\n", b"\r", b"\0", b"\n\n", b"x" * 9])))
def test_lines_do_not_depend_on_how_the_bytes_arrive(pieces):
    async def read(chunks):
        buffer = LineBuffer("any")
        for chunk in chunks:
            buffer.feed(chunk)
        buffer.end()
        return await drained(buffer)

    data = b"".join(pieces)
    whole = asyncio.run(read([data]))
    assert asyncio.run(read(pieces)) == whole
    expected = data.split(b"\n")
    assert whole == [
        line.removesuffix(b"\r") for line in (expected if expected[-1] else expected[:-1])
    ]


async def test_a_pipe_is_not_read_while_its_reader_is_behind():
    pipe, buffer = Pipe(), LineBuffer("any", high_water=10)
    buffer.attach(pipe)
    buffer.feed(b"1234\n" * 2)
    assert pipe.is_reading()
    buffer.feed(b"5\n6")
    assert not pipe.is_reading()
    assert [await buffer.next(), await buffer.next()] == [b"1234", b"1234"]
    assert pipe.is_reading()


async def test_a_long_line_is_read_on_although_it_is_above_the_high_water():
    pipe, buffer = Pipe(), LineBuffer("any", limit=100, high_water=10)
    buffer.attach(pipe)
    buffer.feed(b"x" * 100 + b"\r")
    assert pipe.is_reading()
    buffer.feed(b"\n")
    assert await buffer.next() == b"x" * 100


@pytest.mark.parametrize("chunks", [[b"x" * 12], [b"x" * 11 + b"\n"], [b"x" * 6, b"x" * 6]])
async def test_lines_before_one_that_is_too_long_are_given_out(chunks):
    buffer = LineBuffer("any", limit=10)
    for chunk in [b"good\n", *chunks, b"later\n"]:
        buffer.feed(chunk)
    buffer.end()
    assert await buffer.next() == b"good"
    for _ in range(2):
        with pytest.raises(LineTooLongError, match="more than 10 bytes"):
            await buffer.next()


@given(st.lists(st.binary(max_size=30)), st.integers(min_value=1, max_value=40))
def test_head_and_tail_keep_the_first_and_the_last_bytes(chunks, limit):
    head, tail, data = ByteHead(limit), ByteTail(limit), b"".join(chunks)
    for chunk in chunks:
        head.feed(chunk)
        tail.feed(chunk)
    assert head.text == data[:limit].decode("utf-8", "replace")
    assert head.truncated == (len(data) > limit)
    assert tail.text == data[-limit:].decode("utf-8", "replace")
