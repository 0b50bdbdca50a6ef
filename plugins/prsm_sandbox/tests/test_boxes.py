"""Programs in boxes: what they see, what limits them, how they end, and what is left of them."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from errno import ENOSYS, EPERM
from pathlib import Path

import pytest
from prsm_sandbox import cgroups
from prsm_sandbox.box_view import TEMP
from prsm_testing.doubles import SANDBOX

from prsm_core.domain.boxes import Box
from prsm_core.engine.processes.executor import ProgramBoxes, end_left_boxes, find_left_boxes
from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.engine.processes.table import end_orphans
from prsm_core.errors import ProcessError, ProviderNotAvailableError
from prsm_core.kit.clocks import SystemClock
from tests.engine.boxes import WHY_NO, Boxes, executor_with, needs_runc
from tests.engine.hostile import first_line, gone
from tests.engine.setid import CALLS, set_id_command, set_id_files

MIB = 2**20


@pytest.fixture
async def opened(tmp_path):
    """Opens boxes by a runtime; skips where it is not there."""
    async with ProcessLauncher(SystemClock()) as launcher:

        def open_boxes(runtime="runc"):
            if WHY_NO[runtime] is not None:
                pytest.skip(str(WHY_NO[runtime]))
            folder, state = tmp_path / "work", tmp_path / "state"
            folder.mkdir()
            return Boxes(ProgramBoxes(launcher, state, executor_with(runtime)), folder, state)

        yield open_boxes


both = pytest.mark.parametrize("runtime", ["runc", "bwrap"])


@both
async def test_a_box_has_the_systems_programs_and_its_folder_and_nothing_else(opened, runtime):
    boxes = opened(runtime)
    (boxes.folder.parent / "secret").write_text("hidden")
    (boxes.folder / "mine").write_text("seen")
    ended = await boxes("cat mine; ls -A /tmp ~ ..; echo $$ $(ls -d /proc/[0-9]* | wc -l)")
    assert ended.code == 0, ended.errors
    assert "seen" in ended.output
    assert "secret" not in ended.output
    assert int(ended.output.split()[-1]) < 10  # processes


@both
async def test_it_writes_its_folder_and_nothing_of_the_system(opened, runtime):
    boxes = opened(runtime)
    ended = await boxes("echo new > made; for f in /x /usr/x /etc/x; do touch $f && echo $f; done")
    assert ended.output == ""
    assert (boxes.folder / "made").read_text() == "new\n"
    assert "Read-only" in ended.errors


@both
async def test_it_has_no_capability_and_can_gain_none(opened, runtime):
    ended = await opened(runtime)("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status")
    told = dict(line.split(":\t") for line in ended.output.splitlines())
    assert {told[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Amb")} == {"0" * 16}
    assert (told["NoNewPrivs"], told["Seccomp"]) == ("1", "2")


@both
@pytest.mark.skipif(len(CALLS) < 3, reason="the numbers of its system calls are not known here")
async def test_no_call_in_it_makes_a_file_setuid_or_setgid(opened, runtime):
    boxes = opened(runtime)
    for call in (*CALLS, "tmpfile"):
        ended = await boxes(set_id_command(PYTHON, call, 0o4755))
        refused = str(ENOSYS if call == "openat2" else EPERM)
        assert ended.output.split() == [refused], (call, ended.errors)
    assert set_id_files(boxes.folder) == {}


@both
async def test_it_has_no_network_unless_asked(opened, runtime):
    boxes = opened(runtime)
    assert [line.split(":")[0].strip() for line in (await boxes(DEVICES)).output.splitlines()] == [
        "lo"
    ]
    outside = {name for _, name in socket.if_nameindex()}
    seen = (await boxes(DEVICES, network=True)).output
    assert {line.split(":")[0].strip() for line in seen.splitlines()} == outside


DEVICES = "tail -n +3 /proc/net/dev"


@both
async def test_input_output_and_the_exit_code_go_through(opened, runtime):
    ended = await opened(runtime)("cat; echo told >&2; exit 7", given=b"one\ntwo\n")
    assert (ended.code, ended.output, ended.errors) == (7, "one\ntwo", "told\n")


@both
async def test_a_program_that_a_signal_ends_has_its_code(opened, runtime):
    assert (await opened(runtime)("kill -9 $$")).code == 128 + signal.SIGKILL


@both
async def test_variables_are_those_of_other_processes_and_its_own(opened, runtime):
    ended = await opened(runtime)("env", env={"AGENT_ID": "a1", "TMPDIR": "/nowhere/of/it"})
    found = dict(line.split("=", 1) for line in ended.output.splitlines())
    assert found["AGENT_ID"] == "a1"
    assert found["TMPDIR"] == TEMP
    assert found["PRSM_ENGINE"].startswith(f"{os.getpid()}-")


@needs_runc
async def test_no_variable_is_written_to_the_disk(opened):
    boxes = opened()
    process = await boxes.start("cat", env={"API_KEY": "sk-never-on-disk"})
    await process.write(b"runs\n")
    assert await first_line(process) == b"runs"
    for path in boxes.state.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert b"sk-never-on-disk" not in path.read_bytes()
    assert await process.stop() in (0, 128 + signal.SIGTERM)


@needs_runc
async def test_what_goes_over_its_memory_is_killed_and_told(opened):
    ended = await opened()("head -c 60m /dev/zero | tail", memory=32 * MIB)
    assert "ran out of its memory of 32 MiB" in ended.errors.splitlines()[-1]


@needs_runc
async def test_a_program_killed_for_its_memory_ends_with_137(opened):
    boxes = opened()
    process = await boxes.start("tail", memory=32 * MIB)
    with pytest.raises(ProcessError):  # its input is closed
        await process.write(b"0" * (60 * MIB))
    assert await process.wait() == 137
    assert "32 MiB" in process.stderr_tail


@needs_runc
async def test_processes_beyond_its_limit_are_refused_and_told(opened):
    ended = await opened()("i=0; while [ $i -lt 30 ]; do sleep 9 & i=$((i+1)); done", pids=16)
    assert "at its limit of 16 processes" in ended.errors.splitlines()[-1]


@needs_runc
async def test_cpus_are_limited(opened):
    boxes = opened()
    process = await boxes.start("cat", cpus=0.25)
    await process.write(b"runs\n")
    await first_line(process)
    (name,) = boxes.state.glob("boxes/*/prsm-*")
    assert "cpus" in cgroups.held_limits(cgroups.own_parents(), name.name)
    process.kill()
    await process.wait()


@both
async def test_term_ends_a_program_at_once_and_lets_it_do_its_last(opened, runtime):
    boxes = opened(runtime)
    script = "trap 'echo bye > last; exit 5' TERM; echo ready; while :; do sleep 0.01; done"
    process = await boxes.start("sh", "-c", script)
    await first_line(process)
    code = await process.stop()
    if runtime == "runc":
        assert (code, (boxes.folder / "last").read_text()) == (5, "bye\n")
    else:
        assert code == 128 + signal.SIGTERM  # bubblewrap itself ends, and all with it


@both
async def test_nothing_is_left_of_a_box_that_ended_or_was_killed(opened, runtime):
    boxes = opened(runtime)
    await boxes("sleep 100 & setsid sleep 100 & exit 0")
    process = await boxes.start("sh", "-c", "setsid sleep 100 & echo up; wait")
    await first_line(process)
    process.kill()
    assert await process.wait() == 137
    assert boxes.left() == []
    assert _groups() == []


def _groups():
    """Return the control groups of boxes that this process has made."""
    folders = set(cgroups.own_parents().values())
    return [path for folder in folders for path in folder.glob(f"prsm-{os.getpid()}-*")]


ENGINE = """
import asyncio, sys
from pathlib import Path
from prsm_core.domain.boxes import Box
from prsm_core.engine.processes.executor import ProgramBoxes
from prsm_core.engine.processes.launcher import ProcessLauncher, install_child_watcher
from prsm_core.engine.processes.table import recorded_processes
from prsm_core.kit.clocks import SystemClock
from prsm_testing.doubles import SANDBOX

async def main():
    state = Path(sys.argv[1])
    with recorded_processes(state) as record:
        async with ProcessLauncher(SystemClock(), on_start=record.add) as launcher:
            boxes = ProgramBoxes(launcher, state, SANDBOX)
            argv = ["sh", "-c", "setsid sleep 1000 & echo up; exec sleep 1000"]
            process = await boxes.start(argv, name="boxed", box=Box(memory=2**26))
            async for line in process.lines():
                print(process.pid, flush=True)

install_child_watcher()
asyncio.run(main())
"""


@needs_runc
@pytest.mark.parametrize("rounds", [3, pytest.param(50, marks=pytest.mark.long)])
async def test_a_killed_engine_leaves_no_process_and_the_next_one_no_box(tmp_path, rounds):
    for _ in range(rounds):
        engine = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", ENGINE, str(tmp_path)), stdout=asyncio.subprocess.PIPE
        )
        assert engine.stdout is not None
        shim = int(await engine.stdout.readline())
        groups = [
            p for f in set(cgroups.own_parents().values()) for p in f.glob(f"prsm-{engine.pid}-*")
        ]
        assert groups
        engine.kill()
        await engine.wait()
        await gone(shim)
        for group in groups:
            assert _members(group) == []
        (left,) = find_left_boxes(tmp_path, SANDBOX)
        assert end_left_boxes(tmp_path, SANDBOX) == 1
        end_orphans(tmp_path)
        assert find_left_boxes(tmp_path, SANDBOX) == []
        assert list((tmp_path / "boxes").iterdir()) == []
        assert not any(group.exists() for group in groups), left


def _members(group):
    try:
        return (group / "cgroup.procs").read_text().split()
    except FileNotFoundError:
        return []


@needs_runc
async def test_a_program_outside_of_the_system_is_shown_alone(opened, tmp_path):
    boxes, program = opened(), tmp_path / "tools" / "mine"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nls ${0%/*}\n")
    program.chmod(0o755)
    (program.parent / "other").touch()
    process = await boxes.start(str(program))
    assert [line async for line in process.lines()] == [b"mine"]
    assert await process.wait() == 0


@both
async def test_a_program_that_is_nowhere_is_told_before_the_start(opened, runtime):
    with pytest.raises(ProviderNotAvailableError, match="no such program in the box"):
        await opened(runtime).start("no-such-program")


@both
async def test_a_zero_byte_is_refused(opened, runtime):
    with pytest.raises(ProcessError, match="zero byte"):
        await opened(runtime)("true", env={"A": "a\0b"})


@both
async def test_mounts_are_seen_and_not_written_and_writable_folders_are(opened, runtime, tmp_path):
    boxes = opened(runtime)
    for name in ("shown", "open"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    command = f"cat /mnt/a/file; echo x > /mnt/a/file; echo new > {tmp_path}/open/file"
    ended = await boxes(
        command, mounts={"/mnt/a": str(tmp_path / "shown")}, writable=(str(tmp_path / "open"),)
    )
    assert ended.output == "shown"
    assert (tmp_path / "shown" / "file").read_text() == "shown"
    assert (tmp_path / "open" / "file").read_text() == "new\n"


@both
async def test_a_socket_that_is_mounted_is_reached(opened, runtime, tmp_path):
    boxes = opened(runtime)
    heard = asyncio.Event()

    def hear(_reader, writer):
        writer.close()
        heard.set()

    server = await asyncio.start_unix_server(hear, tmp_path / "s")
    perl = "use IO::Socket::UNIX; IO::Socket::UNIX->new('/mnt/s') or die $!"
    ended = await boxes(f'perl -e "{perl}"', mounts={"/mnt/s": str(tmp_path / "s")})
    assert (ended.code, ended.errors) == (0, "")
    await heard.wait()
    server.close()
    await server.wait_closed()


async def test_where_there_is_no_runtime_nothing_starts(tmp_path):
    async with ProcessLauncher(SystemClock()) as launcher:
        boxes = ProgramBoxes(launcher, tmp_path, executor_with("no-such-runtime"))
        with pytest.raises(ProviderNotAvailableError, match="there are no boxes here") as caught:
            await boxes.start(["true"], name="boxed", box=Box())
    assert "install runc" in str(caught.value.hint)


NOBODY = 65534
PYTHON = Path("/usr/bin/python3")  # which every user may run
TRIAL = """
import asyncio, encodings.ascii, os, sys
from pathlib import Path
from prsm_core.domain.boxes import Box
from prsm_sandbox import boxes, box_runtimes, bundles
from prsm_sandbox.sandbox import SandboxExecutor
from prsm_core.engine.processes.executor import ProgramBoxes
from prsm_core.engine.processes.executor import ChosenExecutor
from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.executors import ExecutorSpec
from prsm_core.kit.clocks import SystemClock

async def main():
    async with ProcessLauncher(SystemClock()) as launcher:
        spec = ExecutorSpec(name="box", summary="", factory=lambda: SandboxExecutor(["runc"]))
        boxes = ProgramBoxes(launcher, Path(sys.argv[1]), ChosenExecutor(spec=spec))
        state = await boxes.examine()
        print(state.runtime, *state.gaps(Box(memory=2**26)), sep="\\n", flush=True)
        process = await boxes.start(["id", "-u"], name="boxed", box=Box(memory=2**26))
        print(*[line.decode() async for line in process.lines()], await process.wait())
        boxes.close()

os.setgroups([]); os.setgid(65534); os.setuid(65534)
sys.executable = "/usr/bin/python3"
asyncio.run(main())
"""


@needs_runc
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.skipif(not PYTHON.exists(), reason="there is no /usr/bin/python3")
async def test_a_user_without_groups_of_their_own_has_boxes_and_is_told_the_limits(tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    os.chown(state, NOBODY, NOBODY)
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        folder.chmod(folder.stat().st_mode | 0o055)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", TRIAL, str(state)), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    runtime, gap, ended = output.decode().splitlines()
    assert runtime == "runc"
    assert gap.startswith("runc does not limit memory here: runc cannot set limits here: ")
    assert ended == "0 0"
