"""Runs an MCP server for an agent, and notes down how it ended by itself; run as `python -I -S`.

The server has the agent's own pipes, so no byte passes through here. An agent that wants no server
any more closes its side or sends a signal, and nothing is noted.

Arguments: the file for the note, then the server's command. The note is the exit code: the server's
own, 128 and the number of the signal that ended it, or 127 if it cannot be started.
"""

import select
import signal
import subprocess
import sys
from pathlib import Path

ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
NOT_STARTED = 127
SIGNALLED = 128
STDIN = 0


def main(note: Path, command: list[str]) -> int:
    """Run the command and return its exit code."""
    asked: list[int] = []
    process: subprocess.Popen[bytes] | None = None

    def pass_on(number: int, _frame: object) -> None:
        asked.append(number)
        if process is not None:
            process.send_signal(number)

    for number in ENDING:
        signal.signal(number, pass_on)
    try:
        process = subprocess.Popen(command)
    except OSError:
        code = NOT_STARTED
    else:
        if asked:
            process.send_signal(asked[0])
        code = process.wait()
    if code < 0:
        code = SIGNALLED - code
    if not asked and is_wanted():
        note.write_text(str(code))
    return code


def is_wanted() -> bool:
    """Return whether the agent still holds the other end of our stdin."""
    poll = select.poll()
    poll.register(STDIN, select.POLLRDHUP)
    return not poll.poll(0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
