"""Asks the engine whether a tool call may run; Codex runs it before each, as `python -I -S`.

The call arrives on stdin and goes to the engine's socket as it is, behind the token. What stands
behind the engine's `allow` or `deny` is for Codex and goes to stdout. Every other end is a failure
with one line on stderr: Codex would let the call run then, so the command line around this refuses.
"""

import os
import socket
import sys

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
    """Hand the call over and return the engine's answer."""
    with connect(path, seconds) as connection:
        connection.sendall(token.encode() + b"\n" + sys.stdin.buffer.read())
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while chunk := connection.recv(CHUNK):
            answer += chunk
    return answer


def main() -> int:
    """Ask, pass the answer on, and return the exit code."""
    try:
        path, token, seconds = (os.environ[name] for name in VARIABLES)
        verdict, _, told = ask(path, token, float(seconds)).partition(b"\n")
        if verdict not in (b"allow", b"deny"):
            raise ConnectionError("it closed the connection without an answer")
        sys.stdout.buffer.write(told)
        sys.stdout.buffer.flush()
    except (OSError, LookupError, ValueError) as error:
        sys.stderr.write(f"prsm: the engine could not be asked: {error!r}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
