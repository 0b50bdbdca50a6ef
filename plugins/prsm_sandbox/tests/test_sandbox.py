"""What a command reaches in the sandbox, and what becomes of one where there is none."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

import pytest
from prsm_files.shadow.whereabouts import Where

from prsm_core.errors import ConfigError, ProcessError
from tests.engine.sandboxes import needs_bwrap


@needs_bwrap
@pytest.mark.requirement("U23")
async def test_the_workspace_can_be_written_and_nothing_else(opened, workspace, home):
    run = opened()
    done = await run("echo b > b.txt && cat a.txt b.txt")
    assert (done.exit_code, done.stdout) == (0, "ab\n")
    assert (workspace / "b.txt").read_text() == "b\n"
    done = await run(f"echo x > {home}/notes")
    assert done.exit_code != 0
    assert "Read-only file system" in done.stderr
    assert (home / "notes").read_text() == "notes"


@needs_bwrap
@pytest.mark.requirement("U23")
@pytest.mark.parametrize(
    "command",
    [
        "echo x >> .git/config",
        "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit",
        "rm -rf .git",
        "mv .git git-away",
        "echo 'allow: [[rm]]' > .prism/policy.yaml",
        "rmdir .prism && mkdir .prism && echo x > .prism/config.yaml",
    ],
)
async def test_what_could_widen_rights_stays_as_it_is(opened, workspace, command):
    run = opened()
    assert (await run(command)).exit_code != 0
    assert (workspace / ".git" / "config").read_text() == "[core]\n"
    assert not (workspace / ".prism").exists()
    assert not (workspace / "git-away").exists()


@needs_bwrap
@pytest.mark.requirement("U23")
async def test_secrets_of_the_home_and_the_ledger_are_not_there(opened, home, outside_temp):
    run = opened()
    done = await run(
        f"cat {home}/.ssh/id_rsa; cat {home}/.netrc; cat {outside_temp}/state/ledger.db"
    )
    assert "private" not in done.stdout
    assert "password" not in done.stdout
    assert "ledger" not in done.stdout
    assert (await run(f"cat {home}/notes")).stdout == "notes"


@needs_bwrap
async def test_of_the_workspace_only_the_region_of_an_agent_can_be_written(opened, workspace):
    run = opened()
    region = (str(workspace / "src"), str(workspace / "new" / "part"))
    done = await run("echo x > src/x && echo x > new/part/x && cat a.txt", region=region)
    assert (done.exit_code, done.stdout) == (0, "a")
    done = await run("echo x > a.txt; echo x > new/x; mkdir other", region=region)
    assert done.stderr.count("Read-only file system") == 3
    done = await run("echo x > a.txt", region=())
    assert "Read-only file system" in done.stderr
    assert (workspace / "a.txt").read_text() == "a"


REPLACE = (
    "mv pkg aside && mkdir -p pkg/part && echo x > pkg/part/x",
    "mv pkg/part aside && mkdir pkg/part && echo x > pkg/part/x",
    "rm -rf pkg; mkdir -p pkg/part; echo x > pkg/part/x",
    "ln pkg/part/theirs hard && echo x > hard",
    "umount pkg/part; umount -l pkg/part; echo x > pkg/part/x",
    "mount -o remount,rw,bind pkg/part; echo x > pkg/part/x",
)
WRITE = ("echo x > pkg/part/x", "cp a.txt pkg/part/theirs", "sed -i s/o/x/ pkg/part/theirs")


@pytest.fixture
def part(workspace):
    """A folder that is closed, with a file of its owner's."""
    folder = workspace / "pkg" / "part"
    folder.mkdir(parents=True)
    (folder / "theirs").write_text("of the owner")
    return folder


def is_as_it_was(part):
    return [(file.name, file.read_text()) for file in part.iterdir()] == [
        ("theirs", "of the owner")
    ]


@needs_bwrap
@pytest.mark.parametrize("command", [*WRITE, *REPLACE])
@pytest.mark.parametrize("region", [None, ["."], ["pkg"]])
@pytest.mark.parametrize("writable", [[], ["pkg"], ["pkg/part"], ["."]])
async def test_nothing_is_written_in_a_closed_folder_nor_put_in_its_place(
    opened, workspace, part, command, region, writable
):
    run = opened(writable=writable)
    own = None if region is None else [str((workspace / each).resolve()) for each in region]
    done = await run(command, region=own, closed=[str(part)])
    assert done.exit_code != 0
    assert is_as_it_was(part)


@needs_bwrap
async def test_beside_a_closed_folder_all_else_can_be_written(opened, workspace, part):
    closed = [str(part), str(workspace / "new" / "deep")]
    done = await opened()("echo x > pkg/y && mkdir pkg/z && echo x > new/y", closed=closed)
    assert done.exit_code == 0, done.stderr
    assert (workspace / "pkg" / "y").read_text() == "x\n"
    done = await opened()("cat pkg/part/theirs && echo x > new/deep/x", closed=closed)
    assert done.stdout == "of the owner"
    assert "Read-only file system" in done.stderr
    done = await opened()("echo x > pkg/y", region=[str(part)], closed=[str(part)])
    assert "Read-only file system" in done.stderr


@needs_bwrap
async def test_a_closed_file_or_one_outside_what_can_be_written_is_no_fault(
    opened, workspace, outside_temp
):
    closed = [str(workspace / "a.txt"), str(outside_temp / "elsewhere")]
    done = await opened()("echo x > b.txt && echo x > a.txt", closed=closed)
    assert "a.txt: Read-only file system" in done.stderr
    assert not (outside_temp / "elsewhere").exists()


@needs_bwrap
async def test_a_folder_that_has_become_a_link_or_lies_in_a_file_is_not_taken_for_closed(
    opened, workspace, part
):
    (workspace / "link").symlink_to(part)
    with pytest.raises(ProcessError, match="has become a link"):
        await opened()("true", closed=[str(workspace / "link")])
    with pytest.raises(ProcessError, match="cannot be made"):
        await opened()("true", closed=[str(workspace / "a.txt" / "below")])


@needs_bwrap
@pytest.mark.requirement("U23")
async def test_there_is_no_network_unless_it_is_allowed(opened):
    count = "grep -c : /proc/net/dev"
    assert (await opened()(count)).stdout == "1\n"  # the loopback alone
    outside = (await opened(mode="off")(count)).stdout
    assert (await opened(network=True)(count)).stdout == outside


@needs_bwrap
@pytest.mark.requirement("F11")
async def test_nothing_outlives_the_command(opened):
    marker = f"3600.{os.getpid()}"
    done = await opened()(f"setsid -f sleep {marker}; echo done")
    assert done.stdout == "done\n"
    assert (await opened(mode="off")(f"pgrep -x -f 'sleep {marker}'")).stdout == ""


@needs_bwrap
async def test_the_temp_folder_is_its_own_and_lasts_from_command_to_command(opened):
    name = uuid.uuid4().hex
    run = opened()
    await run(f"echo kept > /tmp/{name}")
    assert (await run(f"cat /tmp/{name}")).stdout == "kept\n"
    assert not (Path("/tmp") / name).exists()  # noqa: S108 - the very folder that is replaced


@needs_bwrap
async def test_further_paths_can_be_opened(opened, workspace, home):
    run = opened(writable=(".git", ".git/config", str(home / "notes")))
    done = await run(f"echo '#' >> .git/config && touch .git/new && echo y > {home}/notes")
    assert (done.exit_code, done.stderr) == (0, "")
    assert (home / "notes").read_text() == "y\n"


@needs_bwrap
async def test_the_exit_code_and_both_outputs_come_through(opened, workspace):
    (workspace / "below").mkdir()
    done = await opened()("pwd; echo e >&2; exit 7", cwd=workspace / "below")
    assert (done.exit_code, done.stdout, done.stderr) == (7, f"{workspace}/below\n", "e\n")


async def test_turned_off_a_command_runs_as_it_is(opened, home):
    assert (await opened(mode="off")(f"cat {home}/.netrc")).stdout == "password"


@pytest.fixture
def no_bwrap(monkeypatch, tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    for program in ("bash", "cat"):
        (folder / program).symlink_to(str(shutil.which(program)))
    monkeypatch.setenv("PATH", str(folder))


async def test_where_it_is_missing_auto_goes_on_without(no_bwrap, opened, workspace):
    assert (await opened()("cat a.txt")).stdout == "a"


@pytest.mark.requirement("U23")
async def test_where_it_is_missing_require_refuses_and_says_what_to_do(no_bwrap, opened):
    with pytest.raises(ConfigError, match="bwrap is not installed") as caught:
        await opened(mode="require")("echo hi")
    assert "install bubblewrap" in str(caught.value.hint)


async def test_a_bubblewrap_that_fails_is_not_taken_for_one(no_bwrap, opened, tmp_path):
    program = tmp_path / "bin" / "bwrap"
    program.write_text("#!/bin/bash\necho 'bwrap: no user namespaces' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(ConfigError, match="no user namespaces"):
        await opened(mode="require")("echo hi")


@needs_bwrap
@pytest.mark.requirement("U23")
async def test_where_calls_cannot_be_filtered_require_refuses_and_auto_says_so(opened, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "sparc64")
    with pytest.raises(ConfigError, match="cannot be filtered on sparc64: keyrings are open"):
        await opened(mode="require")("echo hi")
    run = opened()
    assert (await run("echo hi")).stdout == "hi\n"
    state = await run.sandbox.prepare()
    assert (state.is_active, len(state.gaps)) == (True, 1)


@pytest.fixture
def other_bwrap(monkeypatch, tmp_path):
    """Replaces bubblewrap by a script; ask for it before `opened`, which reads PATH."""
    real = shutil.which("bwrap")
    program = tmp_path / "bin" / "bwrap"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    def replace(script):
        program.write_text(f"#!/bin/bash\nreal={real}\n{script}\n")
        program.chmod(0o755)

    return replace


@needs_bwrap
async def test_an_old_bubblewrap_without_an_option_does_without_it(other_bwrap, opened):
    other_bwrap(
        '[[ " $* " == *" --disable-userns "* ]] && { echo unknown >&2; exit 1; }\n'
        'echo "it is this one" >&2; exec $real "$@"'
    )
    done = await opened(mode="require")("unshare -Ur true || echo none")
    assert done.stdout == "none\n"
    assert "it is this one" in done.stderr


@needs_bwrap
@pytest.mark.requirement("U23")
async def test_a_bubblewrap_that_does_not_hold_is_found_out(other_bwrap, opened):
    """It starts what it is given, as it is."""
    other_bwrap('while [[ $1 != -- ]]; do shift; done; shift; exec "$@"')
    with pytest.raises(ConfigError, match=r"it would not hold here: .*the file system can be"):
        await opened(mode="require")("echo hi")


@needs_bwrap
@pytest.mark.requirement("U23")
@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
async def test_root_is_told_that_it_cannot_write_the_workspace_of_another(opened, workspace):
    os.chown(workspace, 65534, 65534)
    with pytest.raises(ConfigError, match=r"belongs to another user \(uid 65534\)"):
        await opened(mode="require")("echo hi")


@needs_bwrap
async def test_a_worktree_is_shown_and_writable_and_neither_the_workspace_nor_others_are(
    opened, workspace, outside_temp
):
    trees = outside_temp / "trees"
    for name in ("w1", "w2"):
        (trees / "key" / name / "sub").mkdir(parents=True)
        (trees / "key" / name / ".git").write_text("gitdir: somewhere\n")
    where = Where(outside_temp / "state", trees)
    run, own = opened(tree_of=where.top, private=(trees,)), trees / "key" / "w1"
    done = await run("echo x > file && echo x > ../above && cat ../.git", cwd=own / "sub")
    assert (done.exit_code, done.stdout) == (0, "gitdir: somewhere\n")
    assert (own / "above").read_text() == "x\n"
    await run(f"echo x > {workspace}/a.txt", cwd=own / "sub")
    for command in ("echo x > ../.git", f"ls {trees}/key/w2"):
        assert (await run(command, cwd=own / "sub")).exit_code != 0, command
    assert (workspace / "a.txt").read_text() == "a"


@needs_bwrap
async def test_a_region_may_be_a_file_also_one_that_nobody_has_written_yet(opened, workspace):
    run = opened()
    region = tuple(str(workspace / name) for name in ("a.txt", "lib/new.py", "Makefile"))
    command = "echo mine > a.txt; echo new > lib/new.py; echo all: > Makefile; echo x > lib/y"
    done = await run(command, region=region)
    assert "lib/y: Read-only" in done.stderr
    assert (workspace / "a.txt").read_text() == "mine\n"
    assert (workspace / "lib" / "new.py").read_text() == "new\n"
    assert (workspace / "Makefile").read_text() == "all:\n"
    assert (workspace / "lib" / "new.py").stat().st_mode & 0o7000 == 0
    closed = (str(workspace / "later.py"), str(workspace / "a.txt"))
    done = await run("echo x > later.py; echo x > a.txt; touch y", closed=closed)
    assert done.stderr.count("Read-only") == 2
    assert (workspace / "y").exists()
    assert not (workspace / "later.py").exists(), "what stood in for it is gone"
