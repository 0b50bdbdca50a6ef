"""A command hook of Gemini CLI: passes the event to PRSM and its answer back; `python -I -S`.

It runs once for each tool call, hence nothing but the standard library, and little of that. The
folder it is given holds the socket and a token. Whatever goes wrong is a refusal.
"""

import json
import os
import socket
import sys

SOCKET = "gate.sock"
TOKEN = "token"  # noqa: S105 - the name of a file
CHUNK = 1 << 16


def ask(folder: str, event: str) -> str:
    """Return what PRSM answers, a JSON object on one line."""
    os.chdir(folder)  # a socket's address has room for a hundred bytes only
    with open(TOKEN) as file:  # noqa: PTH123 - pathlib is slow to load
        token = file.read()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(SOCKET)
        connection.sendall(json.dumps({"token": token, "event": json.loads(event)}).encode())
        connection.sendall(b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            data = connection.recv(CHUNK)
            if not data:
                raise ConnectionError("PRSM closed the connection")
            answer += data
    if not isinstance(json.loads(answer), dict):
        raise TypeError("PRSM gave no answer")
    return answer.decode().strip()


def main() -> int:
    """Ask, and print the answer or a refusal."""
    try:
        answer = ask(sys.argv[1], sys.stdin.read())
    except Exception as error:  # noqa: BLE001 - without an answer it is a refusal
        reason = f"PRSM could not be asked: {type(error).__name__}: {error}"
        answer = json.dumps({"decision": "deny", "reason": reason})
    sys.stdout.write(answer + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
