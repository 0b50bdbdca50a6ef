"""Runs commands of git, one after the other, for the engine: a script of the standard library.

    python -I -S git_helper.py

A start under the reaper shim takes a Python interpreter; git itself is started in two milliseconds.
So this one is started once. Each line of its input is a request, a JSON object: `args`, `cwd`,
`env` (text of which each character is one byte) and `stdin` (base64). It answers by a line
{"code", "out", "err"}: the exit code, and how many lines of base64 follow of either output. A
command that cannot be started has the code null and the reason as its `why`.
"""

from __future__ import annotations

import binascii
import json
import os
import sys

TYPE_CHECKING = False  # not that of `typing`: a start waits for what is imported here
if TYPE_CHECKING:
    from typing import Any

_CHUNK = 3 * 2**18  # bytes of output in a line
_PROGRAM = "git"


def _run(request: dict[str, Any]) -> tuple[int, int, int]:
    """Run a command; return its exit code and the files that hold its output."""
    files = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
    _fill(files[0], request["stdin"])
    env = {_bytes(name): _bytes(value) for name, value in request["env"].items()}
    env[b"PATH"] = os.environb.get(b"PATH", os.defpath.encode())
    argv = [_PROGRAM.encode(), *map(_bytes, request["args"])]
    os.chdir(_bytes(request["cwd"]))
    actions = [(os.POSIX_SPAWN_DUP2, file, number) for number, file in enumerate(files)]
    try:
        pid = os.posix_spawnp(_PROGRAM, argv, env, file_actions=actions)
    finally:
        os.chdir("/")
        os.close(files[0])
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code, files[1], files[2]


def _fill(file: int, data: str) -> None:
    left = memoryview(binascii.a2b_base64(data))
    while left:
        left = left[os.write(file, left) :]
    os.lseek(file, 0, os.SEEK_SET)


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")


def _answer(code: int | None, out: int | None, err: int | None, why: str = "") -> None:
    write = sys.stdout.buffer.write
    counts = [0 if file is None else -(-os.fstat(file).st_size // _CHUNK) for file in (out, err)]
    head = {"code": code, "out": counts[0], "err": counts[1], "why": why}
    write(json.dumps(head).encode() + b"\n")
    for file in (out, err):
        if file is not None:
            os.lseek(file, 0, os.SEEK_SET)
            while data := os.read(file, _CHUNK):
                write(binascii.b2a_base64(data))
            os.close(file)
    sys.stdout.buffer.flush()


def main() -> None:
    """Answer requests until there are no more."""
    for line in sys.stdin.buffer:
        try:
            answer = _run(json.loads(line))
        except OSError as error:
            _answer(None, None, None, error.strerror or str(error))
        else:
            _answer(*answer)


if __name__ == "__main__":
    main()
