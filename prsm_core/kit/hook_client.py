"""Asks the engine about an event of a vendor's hook; the vendor runs it, as `python -I -S`.

The event on stdin goes to the engine's socket behind the token. The engine answers with a length
and as many bytes, which go to stdout. Any other end is a failure with a line on stderr: the command
line around this refuses then.

Without its engine a vendor's program is about to be killed, and this with it. Until then it must
not hear of a refusal: it would tell its model and ask what to do.
"""

import os
import socket
import sys
import time

LAST_SECONDS = 10.0  # to be killed in
ADDRESS_LIMIT = 100  # bytes; a socket's address holds 107, and 103 on some systems
CHUNK = 1 << 16
VARIABLES = ("PRSM_HOOK_SOCKET", "PRSM_HOOK_TOKEN", "PRSM_HOOK_SECONDS")


def connect(path: str, seconds: float) -> socket.socket:
    """Return a connection to the engine; by way of the folder where the path is too long."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(seconds)
    if len(os.fsencode(path)) > ADDRESS_LIMIT:
        folder, path = os.path.split(path)
        os.chdir(folder)
    connection.connect(path)
    return connection


def ask(path: str, token: str, seconds: float) -> bytes:
    """Hand the event over and return the engine's answer; raise OSError without a whole one."""
    with connect(path, seconds) as connection:
        connection.sendall(token.encode() + b"\n" + sys.stdin.buffer.read())
        connection.shutdown(socket.SHUT_WR)
        told = b""
        while chunk := connection.recv(CHUNK):
            told += chunk
    length, _, answer = told.partition(b"\n")
    if not told:
        raise ConnectionError("it closed the connection without an answer")
    if length != b"%d" % len(answer):
        raise ValueError("its answer is not whole")
    return answer


def main() -> int:
    """Ask, pass the answer on, and return the exit code."""
    try:
        path, token, seconds = (os.environ[name] for name in VARIABLES)
        sys.stdout.buffer.write(ask(path, token, float(seconds)))
        sys.stdout.buffer.flush()
    except ConnectionError as error:
        time.sleep(LAST_SECONDS)
        return fail(error)
    except (OSError, LookupError, ValueError) as error:
        return fail(error)
    return 0


def fail(error: Exception) -> int:
    """Say in one line why it ends; return the exit code."""
    sys.stderr.write(f"prsm: the engine could not be asked: {error!r}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
