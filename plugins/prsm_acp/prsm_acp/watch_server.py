"""Runs an MCP server for an agent, and notes down how it ended by itself; run as `python -I -S`.

The server has the agent's own pipes, so no byte passes through here. An agent that wants no server
any more closes its side or sends a signal, and nothing is noted.

Arguments: the file for the note, then the server's command. The note is the exit code: the server's
own, 128 and the number of the signal that ended it, or 127 if it cannot be started.
"""

import os
import select
import signal
import sys
from pathlib import Path

ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
NOT_STARTED = 127
SIGNALLED = 128
STDIN = 0


def main(note: Path, command: list[str]) -> int:
    """Run the command and return its exit code."""
    asked: list[int] = []
    process: int | None = None

    def pass_on(number: int, _frame: object) -> None:
        asked.append(number)
        if process is not None:
            os.kill(process, number)

    for number in ENDING:
        signal.signal(number, pass_on)
    try:
        process = os.posix_spawnp(command[0], command, os.environ)
    except OSError:
        code = NOT_STARTED
    else:
        if asked:
            os.kill(process, asked[0])
        code = ended(process)
    if not asked and is_wanted():
        note.write_text(str(code))
    return code


def ended(process: int) -> int:
    """Wait for a process, also past signals, without reaping it; return its exit code."""
    end = os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    if end is None:
        raise RuntimeError("a wait that blocks has found no end")
    return end.si_status if end.si_code == os.CLD_EXITED else SIGNALLED + end.si_status


def is_wanted() -> bool:
    """Return whether the agent still holds the other end of our stdin."""
    poll = select.poll()
    poll.register(STDIN, select.POLLRDHUP)
    return not poll.poll(0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
