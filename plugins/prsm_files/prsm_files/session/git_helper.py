"""Runs commands of git, one after the other, for the engine: a script of the standard library.

    python -I -S git_helper.py SECONDS

It is started once: a start under the reaper shim takes an interpreter, git itself two milliseconds.
Each line of its input is a JSON object: `args`, `cwd`, `env` (text of which each character is one
byte) and `stdin` (base64). It answers by a line {"code", "out", "err"}: the exit code, and how many
lines of base64 follow of either output. If a command cannot be started the code is null, and `why`
says why.

git waits for ever for a pipe where it reads a file in a tree. One that does nothing for SECONDS,
while there is such a pipe, is ended, and its error says which.
"""

from __future__ import annotations

import binascii
import json
import os
import select
import signal
import stat
import sys

TYPE_CHECKING = False  # not that of `typing`: a start waits for what is imported here
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

NO_FOLDER = -1  # the code of a command whose folder cannot be entered; git has none below 0
_CHUNK = 3 * 2**18  # bytes of output in a line
_PROGRAM = "git"
_READ = {b".gitignore", b".gitattributes", b".gitmodules"}


def _run(request: dict[str, Any], seconds: float) -> tuple[int, int, int]:
    files = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
    _fill(files[0], request["stdin"])
    env = {_bytes(name): _bytes(value) for name, value in request["env"].items()}
    env[b"PATH"] = os.environb.get(b"PATH", os.defpath.encode())
    argv = [_PROGRAM.encode(), *map(_bytes, request["args"])]
    try:
        os.chdir(_bytes(request["cwd"]))
    except OSError as error:
        os.close(files[0])
        os.write(files[2], os.fsencode(error.strerror or str(error)))
        return NO_FOLDER, files[1], files[2]
    actions = [(os.POSIX_SPAWN_DUP2, file, number) for number, file in enumerate(files)]
    try:
        pid = os.posix_spawnp(_PROGRAM, argv, env, file_actions=actions)
    finally:
        os.chdir("/")
        os.close(files[0])
    pipe = _until_over(pid, seconds, [env.get(b"GIT_WORK_TREE", b""), env.get(b"GIT_DIR", b"")])
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if pipe is not None:
        os.write(files[2], b"\nfatal: %s is a pipe, where git waits for a file: remove it" % pipe)
        return 1, files[1], files[2]
    return code if code >= 0 else 128 - code, files[1], files[2]


def _until_over(pid: int, seconds: float, tops: list[bytes]) -> bytes | None:
    """Wait for the end of git; return the pipe that it waited for, and for which it was ended."""
    try:
        process = os.pidfd_open(pid)
    except OSError:  # a kernel of before 2019: whoever asks has a limit of their own
        return None
    try:
        over, worked = select.poll(), b""
        over.register(process, select.POLLIN)
        while not over.poll(1000 * seconds):
            before, worked = worked, _worked(pid)
            if before == worked and (pipe := next(_pipes(tops), None)) is not None:
                os.kill(pid, signal.SIGKILL)
                return pipe
        return None
    finally:
        os.close(process)


def _worked(pid: int) -> bytes:
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - of no path of ours
        return b" ".join(file.read().rpartition(b")")[2].split()[11:15])


def _pipes(tops: list[bytes]) -> Iterator[bytes]:
    """Yield pipes where git reads files: of a tree, or of a repository in it."""
    for top in filter(None, tops):
        for folder, _, files in os.walk(top):
            is_gits = b".git" in folder.split(b"/")
            for name in files:
                path = folder + b"/" + name
                if (is_gits or name in _READ) and _is_pipe(path):
                    yield path


def _is_pipe(path: bytes) -> bool:
    try:
        return stat.S_ISFIFO(os.lstat(path).st_mode)
    except OSError:  # it has gone meanwhile
        return False


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
    seconds = float(sys.argv[1])
    for line in sys.stdin.buffer:
        try:
            answer = _run(json.loads(line), seconds)
        except OSError as error:
            _answer(None, None, None, error.strerror or str(error))
        else:
            _answer(*answer)


if __name__ == "__main__":
    main()
