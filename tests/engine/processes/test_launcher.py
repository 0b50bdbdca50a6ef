"""Starting real and hostile processes, ending them, and who is left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from prsm_core.engine.processes.launcher import ProcessLauncher, install_child_watcher
from prsm_core.engine.processes.table import is_alive, process_identity
from prsm_core.errors import ProcessError, ProviderNotAvailableError
from prsm_core.kit.clocks import SystemClock
from prsm_core.kit.environment import GIT_SETTINGS
from tests.engine.hostile import (
    DAEMON,
    DEADLINE,
    ENGINE,
    IGNORES_TERM,
    LEAVES,
    STAYS,
    collect,
    first_line,
    gone,
    python,
    until,
    zombies,
)


@pytest.fixture(scope="module", autouse=True)
def _child_watcher():
    """One thread fewer per child on Python 3.11, as a real run has it."""
    install_child_watcher()


@pytest.fixture
async def launcher():
    async with ProcessLauncher(SystemClock()) as launcher:
        yield launcher


async def test_a_missing_program_is_named_with_a_cure(launcher):
    with pytest.raises(ProviderNotAvailableError, match="no-such-program: No such file") as caught:
        await launcher.start(["no-such-program"], name="codex")
    assert caught.value.hint == "Install no-such-program, or put the folder it is in on PATH."
    assert launcher.live == ()


@pytest.mark.parametrize(
    ("mode", "content", "reason"),
    [
        (0o644, b"#!/bin/sh\n", "Permission denied"),
        (0o755, b"\x7fELF broken", "Exec format error"),
        (0o755, b"#!/no/such/interpreter\n", "the interpreter that .*/tool names"),
    ],
)
async def test_a_program_that_cannot_be_executed_is_named_with_the_reason(
    launcher, tmp_path, mode, content, reason
):
    tool = tmp_path / "tool"
    tool.write_bytes(content)
    tool.chmod(mode)
    with pytest.raises(ProviderNotAvailableError, match=reason):
        await launcher.start([str(tool)], name="tool")
    with pytest.raises(ProviderNotAvailableError, match=reason):
        await launcher.start(["./tool"], name="tool", cwd=str(tmp_path))


async def test_a_program_is_looked_up_on_the_path_of_the_child(launcher, tmp_path):
    tool = tmp_path / "only-here"
    tool.write_text("#!/bin/sh\npwd\n")
    tool.chmod(0o755)
    process = await launcher.start(
        ["only-here"], name="tool", cwd="/", env={"PATH": f"{tmp_path}:/bin:/usr/bin"}
    )
    assert await collect(process) == [b"/"]


async def test_a_missing_working_folder_is_a_clean_error(launcher, tmp_path):
    with pytest.raises(ProcessError, match="there is no folder"):
        await launcher.start(["true"], name="true", cwd=str(tmp_path / "gone"))


@pytest.mark.parametrize("argument", ["x" * 2**18, "a\0b"])
async def test_an_argument_the_system_cannot_take_is_a_clean_error(launcher, argument):
    with pytest.raises(ProcessError, match="echo could not be started"):
        await launcher.start(["echo", argument], name="echo")
    assert launcher.live == ()


async def test_a_closed_launcher_starts_nothing():
    launcher = ProcessLauncher(SystemClock())
    async with launcher:
        pass
    with pytest.raises(ProcessError, match="the launcher is closed"):
        await launcher.start(["true"], name="true")


async def test_the_environment_is_an_allow_list():
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": "/home/x",
        "LC_ALL": "C",
        "OPENAI_API_KEY": "sk-secret",
        "LD_PRELOAD": "/evil.so",
        "PYTHONPATH": "/evil",
    }
    async with ProcessLauncher(SystemClock(), environ=environ) as launcher:
        process = await launcher.start(["env"], name="env", env={"CODEX_HOME": "/c"})
        names = {line.partition(b"=")[0] for line in await collect(process)}
    told = {name.encode() for name in GIT_SETTINGS}
    told |= {b"NO_PROXY", b"no_proxy"}
    assert names == {b"PATH", b"HOME", b"LC_ALL", b"CODEX_HOME", b"PRSM_ENGINE"} | told


async def test_a_child_starts_with_three_files_a_pipe_for_input_and_no_terminal(launcher):
    look = "ls /proc/$$/fd; umask; [ -p /dev/stdin ] && echo pipe; : </dev/tty || echo no terminal"
    process = await launcher.start(["bash", "-c", look], name="look")
    assert await collect(process) == [b"0", b"1", b"2", b"0022", b"pipe", b"no terminal"]


LOOKS_FROM_A_TERMINAL = """
import asyncio, os
from prsm_core.kit.clocks import SystemClock
from prsm_core.engine.processes.launcher import ProcessLauncher

async def main():
    os.close(os.open("/dev/tty", os.O_RDWR))
    async with ProcessLauncher(SystemClock()) as launcher:
        look = ": </dev/tty && echo a terminal || echo no terminal"
        process = await launcher.start(["bash", "-c", look], name="look")
        print([line async for line in process.lines()])

asyncio.run(main())
"""


async def test_a_child_has_no_terminal_also_where_the_engine_has_one(launcher):
    argv = [sys.executable, "-c", "import pty, sys; pty.spawn(sys.argv[1:])"]
    program = [sys.executable, "-c", LOOKS_FROM_A_TERMINAL]
    process = await launcher.start([*argv, *program], name="at a terminal")
    assert [line.strip() for line in await collect(process)] == [b"[b'no terminal']"]


async def test_a_child_starts_with_no_signal_blocked_or_ignored(launcher):
    argv = ["grep", "-hoP", "Sig(Blk|Ign):\\s*\\K.*", "/proc/self/status"]
    process = await launcher.start(argv, name="signals")
    assert await collect(process) == [b"0" * 16, b"0" * 16]


async def test_the_start_of_every_process_is_reported_with_its_identity():
    started = []
    async with ProcessLauncher(
        SystemClock(), on_start=lambda *identity: started.append(identity)
    ) as launcher:
        process = await launcher.start(["sleep", "4321"], name="sleep")
        identity = process_identity(process.pid)
        assert identity is not None
        assert started == [(identity.pid, identity.start_time)]
        assert is_alive(identity)
        assert launcher.live == (process,)
    assert not is_alive(identity)


def test_a_pid_that_nobody_has_has_no_identity():
    assert process_identity(2**22 + 1) is None


async def test_a_shielded_program_reports_a_failed_start_by_its_exit_code(launcher):
    argv = launcher.shielded(["no-such-program"])
    process = await asyncio.create_subprocess_exec(*argv, stderr=subprocess.PIPE)
    _, stderr = await process.communicate()
    assert (process.returncode, stderr) == (
        127,
        b"prsm: no-such-program: No such file or directory\n",
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
async def test_death_by_a_signal_is_128_plus_its_number(launcher, number):
    process = await launcher.start(["bash", "-c", f"kill -{number:d} $$"], name="dies")
    assert await process.wait() == 128 + number


async def test_a_process_that_ignores_term_is_killed_after_the_grace(launcher):
    process = await launcher.start(python(IGNORES_TERM), name="stubborn")
    pid = int(await first_line(process))
    async with asyncio.timeout(DEADLINE):
        assert await process.stop(grace=0.1) == 128 + signal.SIGKILL
    await gone(pid)


async def test_last_words_after_term_are_kept(launcher):
    program = "trap 'echo bye; exit 4' TERM; echo ready; while :; do sleep 0.01; done"
    process = await launcher.start(["bash", "-c", program], name="polite")
    lines = process.lines()
    assert await anext(lines) == b"ready"
    assert await process.stop() == 4
    assert [line async for line in lines] == [b"bye"]


async def test_a_process_that_stops_itself_and_its_shim_is_killed(launcher):
    # Not before its start is known: a shim that is stopped tells of none.
    program = "read; echo $$; kill -STOP $PPID; kill -STOP $$"
    process = await launcher.start(["bash", "-c", program], name="frozen")
    await process.write(b"go on\n")
    pid = int(await first_line(process))
    async with asyncio.timeout(DEADLINE):
        await process.stop(grace=0.1)
    await gone(pid, process.pid)


async def test_a_cancelled_stop_kills(launcher):
    process = await launcher.start(python(IGNORES_TERM), name="stubborn")
    await first_line(process)
    async with asyncio.TaskGroup() as group:
        stopping = group.create_task(process.stop(grace=1000))
        await asyncio.sleep(0)
        stopping.cancel()
    async with asyncio.timeout(DEADLINE):
        assert await process.wait() == 128 + signal.SIGKILL


async def test_a_daemon_with_its_own_session_and_no_environment_ends_with_its_program(launcher):
    process = await launcher.start(python(DAEMON + LEAVES), name="daemon")
    (pid,) = await collect(process)
    assert await process.wait() == 9
    await gone(int(pid))


async def test_killing_a_program_ends_the_daemon_it_left(launcher):
    process = await launcher.start(python(DAEMON + STAYS), name="daemon")
    pid = int(await first_line(process))
    process.kill()
    async with asyncio.timeout(DEADLINE):
        assert await process.wait() == 128 + signal.SIGKILL
    await gone(pid)


# A shell that its program leaves behind, and that holds a lock while it waits for a line. No other
# program is started to give it back: what is asked has little time on a busy machine.
HOLDS_A_LOCK = (
    "mkfifo go; (trap 'echo free >lock' EXIT; echo held >lock; echo held; read -r line <>go) & "
    "read -r line"
)


@pytest.mark.parametrize("how", ["ends", "is stopped"])
async def test_what_a_program_leaves_behind_may_give_its_lock_back(launcher, tmp_path, how):
    process = await launcher.start(["bash", "-c", HOLDS_A_LOCK], name="locker", cwd=tmp_path)
    assert await first_line(process) == b"held"
    assert (tmp_path / "lock").read_text() == "held\n"
    if how == "ends":
        await process.write(b"end\n")
    else:
        await process.stop()
    async with asyncio.timeout(DEADLINE):
        await process.wait()
    assert (tmp_path / "lock").read_text() == "free\n"


NOTES_EACH_TERM = """
import os, signal
if os.fork() == 0:
    log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    signal.signal(signal.SIGTERM, lambda *_: os.write(log, b"asked\\n"))
    print("held", flush=True)
while True:
    signal.pause()
"""


async def test_what_was_asked_with_its_program_is_not_asked_twice(launcher, tmp_path):
    process = await launcher.start(python(NOTES_EACH_TERM), name="left", cwd=tmp_path)
    assert await first_line(process) == b"held"
    async with asyncio.timeout(DEADLINE):
        assert await process.stop() == 128 + signal.SIGTERM
    assert (tmp_path / "log").read_text() == "asked\n"


async def test_fifty_grandchildren_end_with_their_program(launcher):
    program = "for i in $(seq 50); do sleep 4321 & echo $!; done; echo all; wait"
    process = await launcher.start(["bash", "-c", program], name="many")
    lines = process.lines()
    pids = [int(line) async for _, line in _until_line(lines, b"all")]
    assert len(pids) == 50
    await process.stop()
    await gone(*pids)


async def _until_line(lines, last):
    async for line in lines:
        if line == last:
            return
        yield None, line


async def test_a_program_that_kills_its_own_group_ends_alone(launcher):
    process = await launcher.start(python(DAEMON + "os.kill(0, 9)\n"), name="group")
    (pid,) = await collect(process)
    assert await process.wait() == 128 + signal.SIGKILL
    await gone(int(pid))


async def test_a_program_that_kills_its_shim_does_not_outlive_it(launcher):
    program = DAEMON + "sys.stdin.readline(); os.kill(os.getppid(), 9)\n" + STAYS
    others = set(zombies())  # of other tests' programs
    process = await launcher.start(python(program), name="murderer")
    pid = int(await first_line(process))
    await process.write(b"now\n")
    async with asyncio.timeout(DEADLINE):
        assert await process.wait() == 128 + signal.SIGKILL
    await gone(pid)
    await until(lambda: others.issuperset(zombies()), "the adopted daemon is buried")


async def test_a_grandchild_that_holds_the_pipe_cannot_hold_the_end(launcher):
    """The shim is killed too, so that nobody closes the pipe: a process of ours holds it."""
    process = await launcher.start(["bash", "-c", "echo ready; sleep 4321"], name="held")
    await first_line(process)
    write_end = os.open(f"/proc/{process.pid}/fd/2", os.O_WRONLY)
    try:
        os.kill(process.pid, signal.SIGKILL)
        async with asyncio.timeout(DEADLINE):
            assert await process.wait() == 128 + signal.SIGKILL
    finally:
        os.close(write_end)


async def test_closing_the_launcher_closes_the_pipes_that_somebody_still_holds():
    """The loop may end next: an open pipe would complain as garbage, in whatever runs then."""
    async with ProcessLauncher(SystemClock()) as launcher:
        process = await launcher.start(["bash", "-c", "echo ready; sleep 4321"], name="held")
        await first_line(process)
        write_end = os.open(f"/proc/{process.pid}/fd/2", os.O_WRONLY)
        try:
            os.kill(process.pid, signal.SIGKILL)
            await until(lambda: process.has_exited, "the shim has ended")
            assert not process.wire.closed.is_set()
            await launcher.aclose()
            assert process.wire.closed.is_set()
        finally:
            os.close(write_end)


async def test_closing_the_launcher_ends_every_process_at_the_same_time():
    started = time.monotonic()
    async with ProcessLauncher(SystemClock()) as launcher:
        pids = []
        for name in ("a", "b", "c"):
            process = await launcher.start(python(IGNORES_TERM), name=name)
            pids += [process.pid, int(await first_line(process))]
    assert time.monotonic() - started < DEADLINE
    assert not [pid for pid in pids if process_identity(pid)]
    assert launcher.live == ()


async def test_nobody_survives_the_kill_of_the_engine():
    engine = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ENGINE, DAEMON + STAYS, IGNORES_TERM, stdout=subprocess.PIPE
    )
    try:
        assert engine.stdout is not None
        async with asyncio.timeout(DEADLINE):
            words = (await engine.stdout.readline() + await engine.stdout.readline()).split()
        pids = [int(word) for word in words]
        assert len(pids) == 4
        assert all(process_identity(pid) for pid in pids)
    finally:
        engine.kill()
        await engine.wait()
    await gone(*pids)


async def test_a_start_that_is_cancelled_at_any_moment_leaves_no_process(launcher):
    def children():
        return [path.read_text() for path in Path("/proc/self/task").glob("*/children")]

    before = children()
    for steps in [*range(8), 20, 50, 100, 500, 2000, 5000]:
        starting = asyncio.ensure_future(launcher.start(["sleep", "4321"], name="sleep"))
        for _ in range(steps):
            await asyncio.sleep(0)
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await starting).stop()
        await until(lambda: not launcher.live, "nothing that was started lives")
    await until(lambda: children() == before, "this process has no more children")


async def test_thirty_starts_leave_no_file_no_thread_and_no_zombie():
    def held():
        return len(list(Path("/proc/self/fd").iterdir())), threading.active_count(), len(zombies())

    before = held()
    async with ProcessLauncher(SystemClock()) as launcher:
        for _ in range(10):
            async with asyncio.TaskGroup() as group:
                for program in ("exit 3", "sleep 4321 & exit 0", "echo x; sleep 4321"):
                    group.create_task(_start_and_stop(launcher, program))
        assert launcher.live == ()
    assert held() == before


async def _start_and_stop(launcher, program):
    process = await launcher.start(["bash", "-c", program], name=program)
    await process.stop()


# Each ends its shim and leaves a process that nobody can find by its parent, session or variables.
MURDERS = {
    "its shim": "setsid {left} & kill -9 $PPID; exec {left}",
    "its shim, from a daemon": "setsid bash -c 'setsid {left} & kill -9 '$PPID';"
    " exec {left}' & exec {left}",
    "its shim's group": "setsid {left} & kill -9 -$PPID; exec {left}",
    "without variables": "env -i setsid -f {left}; env -i setsid -f {left}; kill -9 $PPID",
    "by another signal": "setsid {left} & setsid -f {left}; kill -SEGV $PPID; exec {left}",
    "after a stop": "setsid {left} & kill -STOP $PPID; kill -9 $PPID; exec {left}",
    "with a lower limit": "ulimit -x 5; setsid {left} & ulimit -x 4; kill -9 $PPID; exec {left}",
    "again and again": "for i in 1 2 3 4 5; do setsid {left} & setsid -f {left}; done;"
    " kill -9 $PPID; while :; do (setsid {left} &); done",
    "with its own death": "setsid {left} & kill -9 $PPID $$",
    "of a python": "exec python3 -c 'import os,signal\nfor i in range(3):\n if os.fork()==0:\n"
    "  os.setsid()\n  if i: os.fork()\n"
    '  os.execvp("sleep", "{left}".split())\n'
    "os.kill(os.getppid(), 9)\nsignal.pause()'",
}


@pytest.mark.requirement("F11")
@pytest.mark.parametrize("how", MURDERS)
async def test_a_command_that_kills_its_shim_leaves_nothing(launcher, tmp_path, how):
    left = f"sleep 4321.{os.getpid()}{time.monotonic_ns()}"
    command, others = MURDERS[how].format(left=left), set(zombies())  # of other tests' programs
    async with asyncio.timeout(DEADLINE):
        process = await launcher.capture(["bash", "-c", command], name="murderer", limit=4096)
        assert await process.wait() == 128 + (11 if "signal" in how else signal.SIGKILL)
    await until(lambda: not running(left), "nothing of it lives")
    await until(lambda: others.issuperset(zombies()), "the adopted ones are buried")


async def test_what_a_killed_shim_of_an_sdk_leaves_is_ended_too(launcher):
    left = f"sleep 4321.{os.getpid()}{time.monotonic_ns()}"
    argv = launcher.shielded(["bash", "-c", f"setsid {left} & kill -9 $PPID; exec {left}"])
    process = await asyncio.create_subprocess_exec(*argv)
    assert await process.wait() == -signal.SIGKILL
    await until(lambda: not running(left), "nothing of it lives")


async def test_a_daemon_that_others_started_in_this_process_is_left_alone(launcher):
    own = subprocess.Popen(  # noqa: ASYNC220 - it does not wait
        ["sleep", "4321"], start_new_session=True
    )
    try:
        process = await launcher.capture(
            ["bash", "-c", "setsid sleep 4321 & kill -9 $PPID"], name="murderer", limit=4096
        )
        await process.wait()
        other = await launcher.capture(["true"], name="another", limit=1)
        await other.wait()
        assert own.poll() is None
    finally:
        own.kill()
        own.wait()


def running(command_line):
    """Return the pids of living processes with this command line."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            if line == command_line:
                found.append(int(folder.name))
    return found
