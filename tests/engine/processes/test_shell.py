"""Shell commands: what they print, how long they may take, and that nothing stays behind."""

from __future__ import annotations

import asyncio
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.engine.processes.executor import run_shell, scrubbed
from prsm_core.engine.processes.launcher import ProcessLauncher, install_child_watcher
from prsm_core.errors import ProcessError
from prsm_core.kit.clocks import SystemClock
from tests.engine.hostile import DEADLINE, gone, until

CLOCK = SystemClock()


@pytest.fixture(scope="module", autouse=True)
def _child_watcher():
    """One thread fewer per child on Python 3.11, as a real run has it."""
    install_child_watcher()


@pytest.fixture
async def shell(tmp_path):
    """Run a command in an empty folder."""
    async with ProcessLauncher(CLOCK) as launcher:

        async def run(command, **options):
            options = {"cwd": str(tmp_path), "timeout_s": DEADLINE, "clock": CLOCK, **options}
            return await run_shell(launcher, command, **options)

        yield run


async def test_output_and_errors_come_separately_with_the_exit_code(shell, tmp_path):
    result = await shell("pwd; echo oops >&2; exit 3")
    assert (result.stdout, result.stderr) == (f"{tmp_path}\n", "oops\n")
    assert (result.exit_code, result.truncated, result.timed_out) == (3, False, False)


@pytest.mark.parametrize("command", ["-c id", "--version", "-", ""])
async def test_a_command_is_never_taken_for_an_option(shell, command):
    result = await shell(command)
    assert "GNU bash" not in result.stdout
    assert "uid=" not in result.stdout


async def test_a_command_has_no_input_and_reads_no_start_up_file(shell, tmp_path):
    (tmp_path / ".bashrc").write_text("echo started")
    (tmp_path / ".bash_profile").write_text("echo started")
    result = await shell("cat; echo end", env={"HOME": str(tmp_path)})
    assert result.stdout == "end\n"


async def test_output_beyond_the_limit_is_dropped_and_the_command_goes_on(shell, tmp_path):
    result = await shell("yes | head -c 10000000; touch done", output_limit=1000)
    assert (len(result.stdout), result.truncated, result.exit_code) == (1000, True, 0)
    assert (tmp_path / "done").exists()


async def test_a_command_that_takes_too_long_is_ended_and_its_output_kept(shell):
    result = await shell("echo $$; sleep 4321 & wait", timeout_s=0.5)
    assert result.timed_out
    assert result.exit_code > 128
    await gone(int(result.stdout))


async def test_what_a_command_leaves_in_the_background_ends_with_it(shell):
    result = await shell("setsid sleep 4321 >/dev/null 2>&1 & echo $!")
    assert result.exit_code == 0
    await gone(int(result.stdout))


async def test_a_background_process_that_holds_the_output_does_not_hold_the_command(shell):
    async with asyncio.timeout(DEADLINE):
        result = await shell("sleep 4321 & echo $!")
    await gone(int(result.stdout))


async def test_cancelling_kills_the_family_before_it_returns(shell, tmp_path):
    stubborn = "trap '' TERM; (trap '' TERM; sleep 4321) & echo $! > pid; mv pid ready; wait"
    async with asyncio.TaskGroup() as group:
        running = group.create_task(shell(stubborn))
        await until((tmp_path / "ready").exists, "the command runs")
        running.cancel()
    pid = int((tmp_path / "ready").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_missing_folder_is_a_clean_error(shell, tmp_path):
    with pytest.raises(ProcessError, match="there is no folder"):
        await shell("pwd", cwd=str(tmp_path / "gone"))


@pytest.mark.parametrize("command", ["echo \0", "echo " + "x" * 2**17])
async def test_a_command_the_system_cannot_take_is_a_clean_error(shell, command):
    with pytest.raises(ProcessError, match="the command"):
        await shell(command)


async def test_variables_that_load_code_and_secrets_do_not_reach_a_command(shell, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    env = {
        "BASH_ENV": "/evil",
        "LD_PRELOAD": "/evil",
        "NODE_OPTIONS": "--require /evil",
        "PYTHONPATH": "/evil",
        "GIT_SSH_COMMAND": "/evil",
        "BASH_FUNC_ls%%": "() { echo evil; }",
        "GITHUB_TOKEN": "ghp_secret",
        "MY_SETTING": "fine",
        "KEYBOARD": "fine",
    }
    result = await shell("env", env=env)
    names = {line.partition("=")[0] for line in result.stdout.splitlines()}
    assert not names & (set(env) - {"MY_SETTING", "KEYBOARD"})
    assert "OPENAI_API_KEY" not in names
    assert {"PATH", "MY_SETTING", "KEYBOARD"} <= names


@given(st.dictionaries(st.text(), st.text()))
def test_scrubbing_only_removes(env):
    assert scrubbed(env).items() <= env.items()


@pytest.mark.requirement("U30")
async def test_a_gates_command_has_the_surroundings_that_are_passed_on(tmp_path):
    environ = {
        "PATH": os.environ["PATH"],
        "https_proxy": "http://proxy:3128",
        "JAVA_HOME": "/opt/java",
        "UNNAMED": "1",
    }
    async with ProcessLauncher(CLOCK, environ=environ, pass_env=["JAVA_HOME"]) as launcher:
        done = await run_shell(
            launcher,
            'echo "$https_proxy $JAVA_HOME $UNNAMED$NO_PROXY"',
            cwd=str(tmp_path),
            timeout_s=60,
            clock=CLOCK,
            env={"NO_PROXY": "own.test"},
        )
    assert done.stdout.split() == [
        "http://proxy:3128",
        "/opt/java",
        "own.test,localhost,127.0.0.1,::1",
    ]
