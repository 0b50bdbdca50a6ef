"""`prsm mcp` as a command of a package: what it loads, for whom it is, and where it is absent."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from prsm_core.engine.control.session_lock import SessionLock
from tests.place import Place
from tests.site_folder import Site, path_without

HEAVY = {"anyio", "asyncio", "mcp", "mcp_types", "pydantic", "pluggy", "sqlite3", "yaml"}
LOADED = """
import json, sys
{work}
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
LOST = """
async def check(request, context): ...
@hookimpl
def prsm_permission_checks():
    yield PermissionCheckSpec(name="guard", summary="", priority=1, check=check)
@hookimpl
def prsm_event_sinks():
    raise RuntimeError("boom")
"""
ABSENT = "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1))\n"
MAIN = "from prsm_core.cli import main; sys.exit(main())"
WIDENING = ["--session=s", "--on-ask=allow", "--mode=bypass", "--without-plugin=a", "--set=a=b"]


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def loaded(work, *args):
    """Return the top-level modules that an interpreter has loaded after some work."""
    argv = [sys.executable, "-c", LOADED.format(work=work), *args]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in json.loads(done.stderr.splitlines()[-1])}


def test_its_help_imports_nothing_heavy():
    main = "from prsm_core.cli import main\nmain(sys.argv[1:])"
    assert not loaded(main, "mcp", "--help") & HEAVY


@pytest.mark.parametrize("module", ["bridge", "proxy", "server", "leading", "plugin"])
def test_mcp_is_loaded_when_something_speaks_it_and_not_before(module):
    assert not loaded(f"import prsm_mcp.{module}") & {"anyio", "mcp", "mcp_types"}


def test_without_the_package_the_command_says_what_to_install(tmp_path, place):
    path = json.dumps(path_without(tmp_path / "site", "prsm_mcp"))
    argv = [sys.executable, "-S", "-c", ABSENT + MAIN, path]
    options = {"env": place.env, "cwd": place.workspace, "capture_output": True, "text": True}
    done = subprocess.run([*argv, "mcp"], check=False, **options)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "prsm: command mcp is not installed: the package prsm-mcp brings it\n"
        "hint: prsm install mcp\n"
    )
    done = subprocess.run([*argv, "--help"], check=True, **options)
    assert "Let an MCP client, such as Claude Code, lead a tree." in done.stdout


async def test_without_plugins_it_does_not_run(place):
    code, out, err = await place.run("--no-plugins", "mcp")
    assert (code, out) == (2, "")
    assert "leave out --no-plugins" in err


@pytest.mark.requirement("D9")
async def test_an_agent_begins_no_run_by_it_but_as_the_files_have_it(place):
    place.home.mkdir()
    with SessionLock.take(place.home / "state", "s1", since=0.0):
        for option in WIDENING:
            code, out, err = await place.run("mcp", option)
            assert (option, code, out) == (option, 1, "")
            assert f"the agents of process {os.getpid()} started it" in err
        del place.env["PRSM_PLUGINS"]  # it leaves plugins out, and with them checks
        assert "started it" not in (await place.run("mcp", "--mode=plan"))[2]


@pytest.mark.requirement("C6")
async def test_a_client_leads_no_run_without_a_check_that_is_lost(place, tmp_path):
    (folder := tmp_path / "site").mkdir()
    Site(folder).add("guard", LOST)
    place.env.update(PRSM_PLUGINS="guard", PYTHONPATH=str(folder))
    async with place.running("mcp") as process:
        out, err = await process.communicate()
    assert (process.returncode, out) == (2, b"")
    assert b"is broken: RuntimeError: boom; its permission checks are missing" in err
    async with place.running("mcp", "--without-plugin", "guard") as process:
        _, err = await process.communicate()
    assert b"permission checks are missing" not in err


async def test_a_client_is_told_of_a_home_that_is_a_file(place):
    place.home.touch()
    async with place.running("mcp") as process:
        out, err = await process.communicate()
    assert (process.returncode, out) == (2, b"")
    assert err.startswith(f"prsm: PRSM_HOME is {place.home}, which is not a folder\n".encode())
