"""What is read as plain is what bash runs: the same commands with the same words."""

from __future__ import annotations

import os
import random
import subprocess

import pytest
from prsm_policy.shell import read_script

# Every name is a program that does not exist, so that bash tells its words to this function.
_TELL = '() { printf "%s\\0" "$@" $\'\\1\' >&9; return $STATUS; }'
_FILES = "abkx"
_PIECES = [
    *"abkx\t\n;\"'\\#=~-*?[]{}!$%^:,./102<>&`()\u00e9", " ", " ", " ", "&&", "||", "|",
    "2>/dev/null", ">/dev/null", "<a", "&>/dev/null", "2>&1", ">&2", '"a b"', "'a b'", "\\ ",
    "\\\n", " \\\n", "{}", "@{u}", '"$"', "a=b", "A=1", "-x", '"a\\"b"', "''", '""', "#x", " #x\n",
    "$a", "2",
]  # fmt: skip
_NATIVE = {"[", "[[", ":", ".", "", "time", "{", "}", "!", "test"}


def run_in_bash(text, folder, *, tell, status):
    """Return what a function tells on descriptor 9 that bash calls for each unknown program."""
    reader, writer = os.pipe()
    environ = {
        "PATH": "/nonexistent",
        "STATUS": str(status),
        "BASH_FUNC_command_not_found_handle%%": tell,
    }
    starter = f'trap "" PIPE; exec 9>&{writer}; exec /bin/bash --norc --noprofile -c -- "$1"'
    with subprocess.Popen(
        ["/bin/bash", "--norc", "--noprofile", "-c", starter, "bash", text],
        env=environ,
        cwd=folder,
        pass_fds=[writer],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ):
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            return pipe.read()


def told_by_bash(text, folder, status):
    """Return the words of each command that bash runs when all of them end with a status."""
    told = run_in_bash(text, folder, tell=_TELL, status=status)
    return {tuple(words.split(b"\0")) for words in told.split(b"\0\1\0") if words}


def is_comparable(commands):
    words = [word for command in commands for word in (*command.words, *command.reads)]
    names = {command.words[0].text for command in commands}
    return (
        all(word.known for word in words)
        and all(word.text in set(_FILES) for command in commands for word in command.reads)
        and not names & _NATIVE
        and not any("/" in name or name[:1] in "-%" for name in names)
    )


def compare(seed, count, folder):
    """Compare random texts; return how many were plain enough to be compared."""
    for name in _FILES:
        (folder / name).touch()
    rng = random.Random(seed)
    compared = 0
    while compared < count:
        text = "".join(rng.choice(_PIECES) for _ in range(rng.randint(1, 14)))
        text = rng.choice("abkx") + " " + text
        script = read_script(text)
        commands = script.commands[: script.own]
        if not script.plain or not commands or not is_comparable(commands):
            continue
        compared += 1
        read = {tuple(word.text.encode() for word in command.words) for command in commands}
        # What stands behind && runs with one status, what stands behind || with the other.
        assert told_by_bash(text, folder, 0) | told_by_bash(text, folder, 1) == read, repr(text)


def test_plain_texts_are_run_by_bash_as_they_are_read(tmp_path):
    compare(seed=0, count=150, folder=tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 11))
def test_thousands_of_plain_texts_are_run_by_bash_as_they_are_read(tmp_path, seed):
    compare(seed, count=1_000, folder=tmp_path)
