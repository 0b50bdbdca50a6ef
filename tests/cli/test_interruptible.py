"""What signals do to a run, one after the other, however busy its loop is."""

import signal
import subprocess
import sys

import pytest

DEADLINE = 60.0

PROGRAM = """
import asyncio, signal
from prsm_core.cli.running import interruptible

def come(*names):
    for name in names:
        signal.raise_signal(signal.Signals[name])

async def main():
    with interruptible():
        try:
            come({at_once})
            await asyncio.Event().wait()
        finally:
            come({while_it_ends})
            await asyncio.sleep(0)
            print("ended in order", flush=True)

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted")
"""


def run(at_once, while_it_ends=()):
    program = PROGRAM.format(
        at_once=", ".join(map(repr, at_once)), while_it_ends=", ".join(map(repr, while_it_ends))
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=DEADLINE, check=False
    )
    return done.returncode, done.stdout.decode()


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_one_signal_ends_it_in_order(name):
    assert run([name]) == (0, "ended in order\ninterrupted\n")


@pytest.mark.parametrize(("first", "second"), [("SIGINT", "SIGINT"), ("SIGTERM", "SIGINT")])
def test_a_second_one_ends_it_at_once_even_before_the_loop_has_seen_the_first(first, second):
    assert run([first, second]) == (-signal.Signals[second], "")
    assert run([first], [second]) == (-signal.Signals[second], "")


@pytest.mark.parametrize("first", ["SIGHUP", "SIGTERM"])
def test_a_terminal_that_goes_never_hastens_the_end(first):
    assert run([first, "SIGHUP"], ["SIGHUP"]) == (0, "ended in order\ninterrupted\n")


def test_signals_do_afterwards_what_they_did_before():
    program = (
        "import asyncio, signal\n"
        "from prsm_core.cli.running import ending_signals, interruptible\n"
        "async def main():\n"
        "    before = [signal.getsignal(number) for number in ending_signals()]\n"
        "    with interruptible():\n"
        "        assert before != [signal.getsignal(number) for number in ending_signals()]\n"
        "    assert before == [signal.getsignal(number) for number in ending_signals()]\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", program], timeout=DEADLINE, check=True)
