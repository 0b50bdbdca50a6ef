"""Lines from pipes, files and terminals, read without blocking the loop."""

import asyncio
import os
import pty

import pytest
from prsm_console.asking import LineReader


@pytest.fixture
def pipe():
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)


async def test_lines_come_whole_however_they_were_written(pipe):
    reader, writer = pipe
    lines = LineReader(reader)
    os.write(writer, "one\ntwö\nthr".encode())
    assert [await lines.read_line(), await lines.read_line()] == ["one", "twö"]
    waiting = asyncio.ensure_future(lines.read_line())
    await asyncio.sleep(0)
    assert not waiting.done()
    os.write(writer, b"ee\n\nlast")
    os.close(writer)
    assert await waiting == "three"
    assert [await lines.read_line() for _ in range(4)] == ["", "last", None, None]


async def test_a_wait_that_is_cancelled_loses_nothing(pipe):
    reader, writer = pipe
    lines = LineReader(reader)
    waiting = asyncio.ensure_future(lines.read_line())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    os.write(writer, b"kept\n")
    assert await lines.read_line() == "kept"
    os.close(writer)


async def test_a_terminal_that_is_hung_up_has_ended():
    controller, terminal = pty.openpty()
    os.close(controller)
    assert await LineReader(terminal).read_line() is None
    os.close(terminal)


async def test_without_a_descriptor_there_is_no_line():
    lines = LineReader(None)
    lines.begin_answer()
    lines.end_answer()
    assert await lines.read_line() is None


@pytest.fixture
def device(request):
    """The descriptor of a device that epoll does not take."""
    descriptor = os.open(request.param, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize("device", ["/dev/null"], indirect=True)
async def test_dev_null_has_ended(device):
    assert await LineReader(device).read_line() is None


@pytest.mark.parametrize("device", ["/dev/zero"], indirect=True)
async def test_a_line_without_an_end_is_not_read_for_ever(device):
    async with asyncio.timeout(20):
        line = await LineReader(device).read_line()
    assert line is not None
    assert len(line) < 2 << 20
