"""What a program prints as its version is asked once, and again when the program changes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core.errors import ProviderNotAvailableError
from prsm_core.kit.version import VersionRange, program_stamp

if TYPE_CHECKING:
    from collections.abc import Mapping

RANGE = VersionRange(
    program="tool", oldest=(2, 0, 0), tested_from=(2, 0, 0), below=(3, 0, 0), install="get tool"
)


class Program:
    """A file that stands for a program: it says its version, and its starts are counted."""

    def __init__(self, folder):
        self.path, self.starts = folder / "tool", 0

    def __call__(self, version):
        self.path.write_text(f"tool {version}")
        self.path.chmod(0o755)
        return [str(self.path)]

    def count(self):
        return self.starts

    def started(self, path):
        self.starts += 1
        return Started(Path(path).read_text())

    def services(self, folder):
        return Services(folder, self)


class Started:
    """A process that has said all it will."""

    def __init__(self, said):
        self.said = said

    async def lines(self):
        yield self.said.encode()

    def close_stdin(self):
        """It reads nothing."""

    async def stop(self, grace):
        return 0


class Services:
    """Starts the program of a file."""

    environment: ClassVar[Mapping[str, str]] = {}

    def __init__(self, folder, program):
        self.state_dir, self.clock, self.program = folder, FakeClock(), program

    async def start_process(self, argv, *, name, env):
        return self.program.started(argv[0])


@pytest.fixture
def program(tmp_path):
    """Write a program that prints a version and notes each of its starts."""
    return Program(tmp_path)


async def asked(folder, command, program):
    services: Any = program.services(folder)
    return await RANGE.printed(command, services)


async def test_a_program_is_started_once_for_its_version(tmp_path, program):
    command = program("2.1.0")
    for _ in range(3):
        assert await asked(tmp_path, command, program) == "tool 2.1.0"
    assert program.count() == 1


@pytest.mark.parametrize("change", ["content", "time", "another file"])
async def test_a_program_that_has_changed_is_asked_again(tmp_path, program, change):
    command = program("2.1.0")
    await asked(tmp_path, command, program)
    seen = program.path.stat()
    if change == "time":
        os.utime(program.path, ns=(seen.st_atime_ns, seen.st_mtime_ns + 1))
    elif change == "another file":  # of the same size and time
        program.path.rename(tmp_path / "before")
        program("2.2.0")
        os.utime(program.path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    else:
        program("2.2.0")
    assert (
        await asked(tmp_path, command, program)
        == f"tool {'2.1.0' if change == 'time' else '2.2.0'}"
    )
    assert program.count() == 2


async def test_a_link_that_leads_to_another_program_is_one_that_has_changed(tmp_path, program):
    program("2.1.0")
    link, other = tmp_path / "link", tmp_path / "other"
    link.symlink_to(program.path)
    assert await asked(tmp_path, [str(link)], program) == "tool 2.1.0"
    other.write_text("tool 2.5.0")
    other.chmod(0o755)
    link.unlink()
    link.symlink_to(other)
    assert await asked(tmp_path, [str(link)], program) == "tool 2.5.0"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe", b"[" * 90_000, b'{"[\\"tool\\"]": 5}', None, "forged"],
)
async def test_a_file_that_is_torn_or_wrong_is_as_good_as_none(tmp_path, program, content):
    command = program("2.1.0")
    await asked(tmp_path, command, program)
    [kept] = tmp_path.rglob("versions.json")
    if content is None:
        kept.unlink()
        kept.mkdir()
    elif content == "forged":
        entries = json.loads(kept.read_text())
        entries[json.dumps(command)]["printed"] = {"no": "text"}
        kept.write_text(json.dumps(entries))
    else:
        kept.write_bytes(content)
    assert await asked(tmp_path, command, program) == "tool 2.1.0"
    assert program.count() == 2
    await asked(tmp_path, command, program)
    assert program.count() == (3 if content is None else 2), "it is whole again"


async def test_what_tells_no_version_is_asked_again(tmp_path, program):
    command = program("of mine")
    for _ in range(2):
        assert await asked(tmp_path, command, program) == "tool of mine"
    assert program.count() == 2


async def test_a_version_that_is_too_old_is_looked_at_again(tmp_path, program):
    command = program("1.0.0")
    services: Any = program.services(tmp_path)
    for starts in (2, 3):
        with pytest.raises(ProviderNotAvailableError, match="too old"):
            await RANGE.found(command, services)
        assert program.count() == starts
    program("2.0.0")
    assert await RANGE.found(command, services) == "2.0.0"


def test_only_what_lies_in_files_can_be_told_to_be_the_same(tmp_path, program):
    [path] = program("1.0.0")
    for known in ([path], ["sh", path], [path, "--acp"], ["/bin/sh", "-x", path]):
        assert program_stamp(known), known
    for unknown in (["sh", "-c", path + " x"], ["npx", "tool"], ["sh", "tool"], ["/no/such"]):
        assert program_stamp(unknown) is None, unknown
    assert program_stamp(["tool"], {"PATH": str(tmp_path)})
