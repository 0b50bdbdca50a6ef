"""stdin and stdout are a client's alone."""

import subprocess
import sys

import pytest

ECHO = """
import asyncio, os, sys
from prsm_core.kit import take_stdio
from prsm_core.loop.output import finish_output, write_aside

if "aside" in sys.argv:
    write_aside()

async def serve():
    wire = take_stdio("editor", hint="an editor starts it")
    print("a plugin prints")
    os.system("echo a program prints")
    assert sys.stdin.read() == ""
    async with wire.open() as (reader, writer):
        while line := await reader.readline():
            writer.write(line.upper())
            await writer.drain()

asyncio.run(serve())
finish_output()
"""


def run(program, *args, **options):
    return subprocess.run(
        [sys.executable, "-c", program, *args],
        capture_output=True,
        timeout=60,
        check=False,
        **options,
    )


@pytest.mark.requirement("C2")
@pytest.mark.parametrize("through", ["pipes", "a file", "aside"])
def test_only_frames_go_to_the_client_and_only_they_come_from_it(through, tmp_path):
    said = b"one\ntwo\n"
    if through != "a file":
        done = run(ECHO, through, input=said)
    else:
        (tmp_path / "frames").write_bytes(said)
        with (tmp_path / "frames").open("rb") as frames:
            done = run(ECHO, stdin=frames)
    assert (done.returncode, done.stdout) == (0, b"ONE\nTWO\n"), done.stderr
    assert sorted(done.stderr.splitlines()) == [b"a plugin prints", b"a program prints"]


def test_where_no_client_is_there_that_is_told_in_the_words_of_the_plugin(tmp_path):
    with (tmp_path / "out").open("wb") as out:
        done = subprocess.run(
            [sys.executable, "-c", ECHO],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 1
    assert b"ConfigError: there is no editor on stdin and stdout" in done.stderr
    assert (tmp_path / "out").read_bytes() == b""
