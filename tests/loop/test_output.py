"""Stdout and stderr are written by a thread, which a terminal or a pipe may hold up."""

import asyncio
import contextlib
import io
import os
import sys
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prsm_core.loop import output
from prsm_core.loop.output import (
    LIMIT,
    LOST,
    ROOM,
    Pump,
    drained,
    finish_output,
    hurry_output,
    redirect_stdout,
    room_in,
    write_aside,
)
from prsm_core.loop.run import run_to_end

IMPATIENT = 0.05
FULL = 128 * 1024  # more than a pipe or a terminal takes, and than ROOM


@contextlib.contextmanager
def written_aside(monkeypatch, out, err, **options):
    """Let two descriptors be stdout and stderr."""
    with (
        open(out, "w", closefd=False, encoding="utf-8") as stdout,
        open(err, "w", closefd=False, encoding="utf-8") as stderr,
    ):
        monkeypatch.setattr(sys, "stdout", stdout)
        monkeypatch.setattr(sys, "stderr", stderr)
        write_aside(**options)
        try:
            yield
        finally:
            hurry_output(even_results=True)
            finish_output()
            monkeypatch.undo()


@pytest.fixture
def pipe():
    reader, writer = os.pipe()
    yield reader, writer
    for descriptor in (reader, writer):
        with contextlib.suppress(OSError):
            os.close(descriptor)


@pytest.fixture
def terminal():
    person, program = os.openpty()
    yield person, program
    os.close(person)
    os.close(program)


def pump_of(stream: Any) -> Pump:
    pump: Pump = stream.pump
    return pump


def read_all(descriptor, size):
    """Return so many bytes, and let nothing be left."""
    parts, count = [], 0
    while count < size:
        parts.append(os.read(descriptor, 65536))
        count += len(parts[-1])
    return b"".join(parts)


def test_files_and_streams_in_memory_stay_as_they_are(monkeypatch, tmp_path):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with (tmp_path / "out").open("w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        write_aside()
        assert (sys.stdout, sys.stderr) == (out, stream)
        finish_output()


def test_two_streams_to_one_place_keep_their_order_and_are_put_back(monkeypatch, pipe):
    reader, writer = pipe
    with written_aside(monkeypatch, writer, writer):
        for number in range(100):
            stream = sys.stdout if number % 2 else sys.stderr
            stream.write(f"{number}\n")
        finish_output()
        assert not isinstance(sys.stdout, output.Outlet)
    assert os.read(reader, 65536).split() == [str(n).encode() for n in range(100)]


async def test_who_waits_for_room_loses_nothing_and_others_go_on(monkeypatch, pipe):
    reader, writer = pipe
    text = "".join(f"{number}\n" for number in range(FULL))
    with written_aside(monkeypatch, writer, 2):

        async def write():
            for line in text.splitlines(keepends=True):
                sys.stdout.write(line)
                await room_in(sys.stdout)
            await drained(sys.stdout)

        writing = asyncio.ensure_future(write())
        assert (await asyncio.wait({writing}, timeout=0.5))[1], "it waits for its reader"
        assert ROOM < pump_of(sys.stdout).size < ROOM + 100
        reading = asyncio.to_thread(read_all, reader, len(text))
        assert (await reading).decode() == text
        await writing


def test_beyond_the_limit_a_terminal_loses_lines_and_is_told_how_many(monkeypatch, terminal):
    person, program = terminal
    with written_aside(monkeypatch, 1, program):
        assert sys.stderr.write("x" * LIMIT + "\n") > 0
        while pump_of(sys.stderr).size >= LIMIT:  # until the terminal has taken what it can
            pass
        assert sys.stderr.write("y" * FULL + "\n") > 0
        assert sys.stderr.write("lost\nlost\n") == 0
        assert sys.stderr.write("lost") == 0
        shown = read_all(person, LIMIT)
        assert sys.stderr.write("there\n") > 0
        told = LOST.format(count=3)
        while b"there" not in shown:
            shown += os.read(person, 65536)
    assert shown.decode().splitlines()[-2:] == [told, "there"]
    assert b"lost" not in shown


def test_stdout_to_a_program_is_waited_for_rather_than_lost(monkeypatch, pipe):
    reader, writer = pipe
    with written_aside(monkeypatch, writer, 2):
        sys.stdout.write("x" * (LIMIT + FULL))
        reading = threading.Thread(target=lambda: got.append(read_all(reader, LIMIT + FULL + 1)))
        got: list[bytes] = []
        reading.start()
        assert sys.stdout.write("y") == 1
        reading.join()
    assert got[0].endswith(b"y")


@pytest.mark.parametrize("who", ["a terminal", "stderr to a program"])
def test_the_end_waits_for_no_terminal_and_no_progress_report(monkeypatch, terminal, pipe, who):
    stuck = terminal[1] if who == "a terminal" else pipe[1]
    with written_aside(monkeypatch, 1, stuck, patience=IMPATIENT):
        sys.stderr.write("x" * FULL)
        finish_output()  # which would wait for ever
        assert sys.stderr.write("nobody sees it") == len("nobody sees it")


def test_the_end_waits_for_results_until_the_person_wants_to_leave(monkeypatch, pipe):
    with written_aside(monkeypatch, pipe[1], 2, patience=IMPATIENT):
        sys.stdout.write("x" * FULL)
        ending = threading.Thread(target=finish_output)
        ending.start()
        ending.join(IMPATIENT * 4)
        assert ending.is_alive()
        read_all(pipe[0], FULL)
        ending.join()


async def test_who_waits_is_let_go_once_the_run_is_over(monkeypatch, terminal):
    with written_aside(monkeypatch, 1, terminal[1], patience=IMPATIENT):
        sys.stderr.write("x" * FULL)
        waiting = asyncio.ensure_future(drained(sys.stderr))
        assert (await asyncio.wait({waiting}, timeout=IMPATIENT * 4))[1]
        hurry_output()
        await waiting


async def test_a_reader_that_has_left_is_an_error_of_the_writer(monkeypatch, pipe):
    reader, writer = pipe
    with written_aside(monkeypatch, writer, 2):
        os.close(reader)
        sys.stdout.write("x")
        with pytest.raises(BrokenPipeError):
            await drained(sys.stdout)
        with pytest.raises(BrokenPipeError):
            sys.stdout.write("y")


async def test_a_pipe_that_another_program_made_non_blocking_is_waited_for(monkeypatch, pipe):
    reader, writer = pipe
    os.set_blocking(writer, False)
    with written_aside(monkeypatch, writer, 2):
        sys.stdout.write("x" * FULL)
        assert len(await asyncio.to_thread(read_all, reader, FULL)) == FULL
        await drained(sys.stdout)


def test_a_thread_that_draws_waits_for_its_terminal_once_for_each_stall(monkeypatch, terminal):
    waits = []
    with written_aside(monkeypatch, 1, terminal[1]):
        pump = pump_of(sys.stderr)
        wait_for = pump._changed.wait_for

        def counted(is_so, timeout=None):
            waits.append(timeout)
            return wait_for(is_so, timeout and timeout / 10)

        monkeypatch.setattr(pump._changed, "wait_for", counted)

        def flush():
            sys.stderr.flush()
            return waits.count(output.SETTLE_SECONDS)

        async def flushes():
            sys.stderr.write("all of it")
            assert flush() == 0, "in the thread of the loop"
            assert await asyncio.to_thread(flush) == 1
            assert pump.size == 0
            sys.stderr.write("x" * FULL)
            assert await asyncio.to_thread(flush) == 2
            assert await asyncio.to_thread(flush) == 2, "it is known to take nothing"

        run_to_end(flushes())


def test_what_is_redirected_goes_elsewhere(monkeypatch, pipe):
    reader, writer = pipe
    other, elsewhere = os.pipe()
    with written_aside(monkeypatch, writer, 2):
        redirect_stdout(elsewhere)
        sys.stdout.write("a plugin prints\n")
        finish_output()
    os.close(writer)
    assert os.read(other, 100) == b"a plugin prints\n"
    assert os.read(reader, 100) == b""
    os.close(other)
    os.close(elsewhere)


@settings(deadline=None, max_examples=30)
@given(
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), max_size=40),
    bites=st.lists(st.integers(1, 200), max_size=20),
)
def test_what_was_taken_arrives_whole_and_in_order(texts, bites):
    reader, writer = os.pipe()
    said = "".join(texts).encode()
    with pytest.MonkeyPatch.context() as patch, written_aside(patch, writer, writer):
        for text in texts:
            sys.stderr.write(text)
        got = b""
        for bite in bites:
            if len(got) < len(said):
                got += os.read(reader, bite)
        got += read_all(reader, len(said) - len(got))
        finish_output()
    os.close(writer)
    assert got + os.read(reader, 1) == said
    os.close(reader)
