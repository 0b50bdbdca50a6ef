"""Hostile commands in the real sandbox; what they did is looked at from outside.

The whole matrix runs as the user who runs the tests. Where that is root it runs once more as a
plain user, in a process of its own.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import uuid
from errno import ENOSYS, EPERM
from pathlib import Path

import pytest
from prsm_sandbox.view import STAND_INS
from prsm_testing.doubles import until

from prsm_core.policies.tables import word_set
from tests.engine.sandboxes import is_there, needs_bwrap, output_of, text_of
from tests.engine.setid import CALLS, PYTHON, set_id_command, set_id_files
from tests.person import home_outside

pytestmark = [needs_bwrap, pytest.mark.requirement("U23")]
REPOSITORY = Path(__file__).parents[3]
PLAIN = "nobody"


def python(program):
    """Return the command line that runs a program in a Python that every user can start."""
    return f"{PYTHON} -I -c '{program}'"


async def test_no_capability_is_left_and_none_can_be_gained(opened):
    done = await opened()("cat /proc/self/status")
    fields = dict(line.split(":", 1) for line in done.stdout.splitlines())
    sets = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    assert {int(fields[name], 16) for name in sets} == {0}
    assert (fields["NoNewPrivs"].strip(), fields["Seccomp"].strip()) == ("1", "2")


UNDOES = {
    "umount": "umount -l /proc/sys; umount -l /proc; umount -l {ws}/.git; umount -l {home}/.ssh",
    "remount": "mount -o remount,rw,bind /; mount -o remount,rw /",
    "remount of a part": "mount -o remount,rw,bind {ws}/.git",
    "a tmpfs over it": "mount -t tmpfs none {home}",
    "a bind": "mount --bind /proc/1/root /mnt",
    "a new user namespace": "unshare -Ur mount -o remount,rw,bind /",
    "a new mount namespace": "unshare -m true",
    "a new user namespace by hand": python(
        'import ctypes, os; libc = ctypes.CDLL(None); print("made" if libc.unshare(0x10000000) == 0'
        ' else "no"); print("moved" if libc.unshare(0x20000) == 0 else "no")'
    ),
    "entering another": "nsenter -t 1 -m -- sh -c 'echo x > {home}/notes'",
    "the root of another": "echo x > /proc/1/root{home}/notes",
    "a sysctl": "echo 7 > /proc/sys/vm/swappiness; echo prsm > /proc/sys/kernel/hostname",
    "sysrq": ": > /proc/sysrq-trigger",
    "its own sandbox": "bwrap --bind / / true",
    "chroot": "chroot / true",
    "a pivot": "pivot_root . .",
    "a module": "insmod /dev/null",
    "the clock": "date -s @0",
}


@pytest.mark.parametrize("how", UNDOES)
async def test_nothing_undoes_the_sandbox(opened, workspace, home, how):
    run, tail = opened(), f"; echo x > {home}/notes; echo x > {workspace}/.git/config"
    before = text_of("/proc/sys/vm/swappiness"), os.uname().nodename
    done = await run(UNDOES[how].replace("{ws}", str(workspace)).replace("{home}", str(home)))
    assert done.exit_code != 0 or done.stdout == "no\nno\n"
    await run(UNDOES[how].replace("{ws}", str(workspace)).replace("{home}", str(home)) + tail)
    assert (home / "notes").read_text() == "notes"
    assert (workspace / ".git" / "config").read_text() == "[core]\n"
    assert (text_of("/proc/sys/vm/swappiness"), os.uname().nodename) == before


async def test_devices_of_the_machine_are_not_there_and_cannot_be_made(opened, workspace):
    done = await opened()("mknod disk b 254 0; mknod /dev/disk c 1 5; ls /dev; head -c1 /dev/mem")
    names = set(done.stdout.split())
    assert names <= word_set(
        "console core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero"
    )
    assert not (workspace / "disk").exists()


async def test_processes_outside_are_not_seen_and_cannot_be_touched(opened):
    victim = subprocess.Popen(["sleep", "4321"])  # noqa: ASYNC220 - it does not wait
    try:
        done = await opened()(
            f"kill -9 {victim.pid}; kill -9 -1; ls -d /proc/[0-9]*; cat /proc/{os.getpid()}/environ"
        )
        shown = [int(path.rpartition("/")[2]) for path in re.findall(r"/proc/\d+", done.stdout)]
        assert not {victim.pid, os.getpid()} & {pid for pid in shown if pid > 50}
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


@pytest.mark.skipif(len(CALLS) < 3, reason="the numbers of its system calls are not known here")
@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o6711, 0o2644])
async def test_no_call_makes_a_file_setuid_or_setgid(opened, workspace, mode):
    run = opened()
    for call in (*CALLS, "tmpfile"):
        done = await run(set_id_command(PYTHON, call, mode))
        refused = str(ENOSYS if call == "openat2" else EPERM)
        assert done.stdout.split() == [refused], (call, done.stderr)
    assert set_id_files(workspace) == {}


MAKES_SET_ID = {
    "chmod of a copy": "cp /bin/bash b; chmod u+s b; chmod g+s b; chmod 6755 b; chmod +s b",
    "install": "install -m 4755 /bin/bash b; install -m 2755 /bin/bash c",
    "a copy with its mode": "cp -p $(find /usr/bin -perm /6000 | head -n1) b; cp -a /usr/bin/su c",
    "an archive": "tar xpf set.tar; tar xf set.tar --to-command=cat; cpio -idm < set.cpio",
    "python": python('import os; open("b", "w").close(); os.chmod("b", 0o4755)'),
    "a folder of it": "mkdir d; chmod g+s d; echo x > d/b; chmod u+s d/b",
    "a link": "ln /usr/bin/su b; ln $(find /usr/bin -perm /6000 | head -n1) c",
    "the temp folder": "cp /bin/bash /tmp/b; chmod 4755 /tmp/b; mv /tmp/b b; cp -p /tmp/b c",
    "rsync, perl": "rsync -a --chmod=u+s /bin/true b; perl -e 'chmod 04755, \"a.txt\"'",
}


@pytest.mark.parametrize("how", MAKES_SET_ID)
async def test_no_command_leaves_a_setuid_or_setgid_file(opened, workspace, how):
    archived = workspace / "set"
    archived.write_text("x")
    archived.chmod(0o6755)
    output_of("tar", "cf", str(workspace / "set.tar"), "-C", str(workspace), "set")
    archived.unlink()
    run = opened(writable=("/var/tmp",))  # noqa: S108 - where one could be left as well
    await run(MAKES_SET_ID[how])
    assert set_id_files(workspace) == {}
    (workspace / "a.txt").chmod(0o6755)
    assert set_id_files(workspace) == {"a.txt": 0o6755}  # they would be seen


async def test_a_folder_that_is_setgid_stays_so_and_hands_it_on(opened, workspace):
    shared = workspace / "shared"
    shared.mkdir()
    shared.chmod(0o2775)
    done = await opened()(
        "mkdir -p shared/a/b && echo x > shared/a/b/c && chmod 640 shared/a/b/c && chmod u+x a.txt"
        " && cp -p a.txt shared/d && mkdir -m 700 plain && chmod 755 plain && chmod +t plain"
    )
    assert (done.exit_code, done.stderr) == (0, "")
    modes = {path: path.stat().st_mode & 0o7777 for path in (shared, shared / "a", shared / "a/b")}
    assert {mode & 0o2000 for mode in modes.values()} == {0o2000}
    assert shared.stat().st_mode & 0o7777 == 0o2775
    assert (workspace / "plain").stat().st_mode & 0o7777 == 0o1755
    assert set_id_files(workspace) == {}


ADD_KEY, KEYCTL = {"x86_64": (248, 250), "aarch64": (217, 219)}.get(platform.machine(), (0, 0))
READS_KEY = (
    "import ctypes; libc = ctypes.CDLL(None, use_errno=True); b = ctypes.create_string_buffer(64);"
    " n = libc.syscall({keyctl}, 11, {serial}, b, 64); print(b.value.decode() if n > 0 else n)"
)


@pytest.mark.skipif(not KEYCTL, reason="the numbers of its system calls are not known here")
async def test_the_keys_of_the_user_cannot_be_read(opened):
    libc = ctypes.CDLL(None, use_errno=True)
    name, secret, ring = uuid.uuid4().hex.encode(), b"the secret", -4  # the user's own keyring
    serial = libc.syscall(ADD_KEY, b"user", name, secret, len(secret), ring)
    if serial < 0:
        pytest.skip(f"no key can be added here: {os.strerror(ctypes.get_errno())}")
    try:
        assert libc.syscall(KEYCTL, 5, serial, 0x3F3F0000) == 0  # the user may read it
        look = python(READS_KEY.format(keyctl=KEYCTL, serial=serial))
        assert (await opened(mode="off")(look)).stdout == "the secret\n"
        done = await opened()(look)
        assert (done.exit_code, done.stdout) == (0, "-1\n"), done.stderr
    finally:
        libc.syscall(KEYCTL, 9, serial, ring)  # unlink


CONNECTS = """
import socket
s = socket.socket(socket.AF_UNIX)
try:
    s.connect({address!r})
    s.sendall(b"x")
    print("reached")
except OSError as error:
    print("shut", error.errno)
"""


def connects(address):
    """Return the command that connects to a unix socket."""
    program = CONNECTS.format(address=address)
    return f'{PYTHON} -I - <<"END"\n{program}\nEND'


@pytest.fixture
def listening():
    """Listens at an address; returns whether somebody has come."""
    open_sockets = []

    def listen(address):
        server = socket.socket(socket.AF_UNIX)
        open_sockets.append(server)
        server.bind(address)
        server.listen()
        server.setblocking(False)
        return server

    yield listen
    for server in open_sockets:
        name = server.getsockname()
        server.close()
        if isinstance(name, str) and name.startswith("/"):
            Path(name).unlink(missing_ok=True)


@pytest.mark.parametrize("where", ["home", "workspace", "run", "tmp", "abstract"])
async def test_sockets_of_other_programs_are_not_reached(opened, home, workspace, listening, where):
    name = f"prsm-{uuid.uuid4().hex[:12]}"
    folder = {"home": home, "workspace": workspace, "run": Path("/run"), "tmp": Path("/tmp")}  # noqa: S108
    address = f"\0{name}" if where == "abstract" else f"{folder[where]}/{name}"
    if len(address) > 100:
        pytest.skip(f"the path of a socket in {folder[where]} is longer than the system allows")
    if where == "run" and not os.access("/run", os.W_OK):
        pytest.skip("this user cannot make a socket in /run")
    server = listening(address)
    assert (await opened(mode="off")(connects(address))).stdout == "reached\n"
    server.accept()[0].close()
    assert (await opened()(connects(address))).stdout.startswith("shut")
    with pytest.raises(BlockingIOError):
        server.accept()


@pytest.fixture
def late(tmp_path, monkeypatch):
    """Returns a function: the next bubblewrap removes this path first, as its owner may."""
    real, folder = shutil.which("bwrap"), tmp_path / "late"
    folder.mkdir()
    program = folder / "bwrap"
    program.write_text(
        f'#!/bin/sh\nread -r path < {folder}/gone && rm {folder}/gone "$path"\nexec {real} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    (folder / "gone").touch()
    return lambda path: (folder / "gone").write_text(f"{path}\n")


async def test_a_command_starts_though_a_socket_has_vanished(
    late, opened, home, workspace, listening
):
    run = opened()
    await run("true")
    listening(str(home / "gone"))
    server = listening(str(home / "stays"))
    late(home / "gone")
    done = await run(f"echo x >> ran; {connects(str(home / 'stays'))}")
    assert not (home / "gone").exists()
    assert done.stdout.startswith("shut"), done.stderr
    assert (workspace / "ran").read_text() == "x\n"
    with pytest.raises(BlockingIOError):
        server.accept()


async def test_a_command_that_fails_runs_once_though_a_socket_vanishes(
    opened, home, workspace, listening
):
    listening(str(home / "gone"))
    command = "echo x >> ran; until [[ -e go ]]; do sleep 0.02; done; exit 1"
    running = asyncio.ensure_future(opened()(command))
    await until((workspace / "ran").exists)
    (home / "gone").unlink()
    (workspace / "go").touch()
    assert (await running).exit_code == 1
    assert (workspace / "ran").read_text() == "x\n"


async def test_sockets_that_no_network_namespace_holds_cannot_be_made(opened):
    make = (
        "import socket\\nfor f in (1, 2, 10, 40, 38):\\n"
        ' try: socket.socket(f, 1 if f != 38 else 5); print("made")\\n'
        ' except OSError as e: print("no")'
    )
    done = await opened()(f"{PYTHON} -I -c $'{make}'")
    assert done.stdout == "made\nmade\nmade\nno\nno\n"


ASKED = (".mcp.json", ".envrc", ".claude", ".vscode", ".codex", ".gemini", ".husky", ".git/hooks")
CREATES = {
    "mkdir": "mkdir -p $n && echo x > $n/x",
    "write": "echo x > $n",
    "move": "rm -rf ../m m; mkdir m && echo x > m/x && mv -T m $n",
    "move a file": "echo x > m && mv -f m $n",
    "link": "ln -sfn $PWD/m $n; ln -f m $n",
    "copy": "mkdir -p c && echo x > c/x && cp -rT c $n",
    "remove first": "rm -rf $n; rmdir $n; mkdir $n && echo x > $n/x",
    "by python": f"{PYTHON} -I -c 'import os, sys; os.symlink(\"/etc\", sys.argv[1])' $n",
}


@pytest.mark.parametrize("how", CREATES)
async def test_what_others_obey_cannot_be_created_and_nothing_is_left(opened, workspace, how):
    below = workspace / "below"
    below.mkdir()
    run = opened()
    for cwd in (workspace, below):
        names = " ".join(dict.fromkeys((*ASKED, *STAND_INS)))
        await run(f"for n in {names}; do {CREATES[how]}; done; true", cwd=cwd)
        made = [name for name in (*ASKED, *STAND_INS) if is_there(cwd / name)]
        assert made == ([".git"] if cwd == workspace else [])
    assert [path.name for path in (workspace / ".git").iterdir()] == ["config"]


async def test_folders_of_the_user_stay_with_what_is_in_them(opened, workspace):
    (workspace / ".vscode").mkdir()
    (workspace / ".codex").mkdir()
    (workspace / ".codex" / "config.toml").write_text("own")
    await opened()("echo x > .codex/config.toml; echo x > .vscode/tasks.json; rm -rf .vscode")
    assert list((workspace / ".vscode").iterdir()) == []
    assert (workspace / ".codex" / "config.toml").read_text() == "own"


async def test_what_lies_deeper_is_protected_as_well(opened, workspace):
    for name in (".git", ".vscode"):
        (workspace / "packages" / "one" / name).mkdir(parents=True)
    done = await opened()("echo x > packages/one/.git/config; mv packages/one/.vscode away")
    assert done.exit_code != 0
    assert list((workspace / "packages" / "one" / ".git").iterdir()) == []
    assert not (workspace / "away").exists()


async def test_git_commits_where_that_is_opened_and_its_hooks_and_settings_stay(opened, workspace):
    shutil.rmtree(workspace / ".git")
    output_of("git", "init", "-q", str(workspace))
    shutil.rmtree(workspace / ".git" / "hooks")
    before = (workspace / ".git" / "config").read_text()
    run = opened(writable=(".git",))
    commit = "git -c user.name=a -c user.email=a@b -c safe.directory='*' commit -q -m one"
    done = await run(f"git -c safe.directory='*' add a.txt && {commit}")
    assert (done.exit_code, done.stderr) == (0, "")
    for command in (
        "git config core.hooksPath /tmp; git config core.fsmonitor x",
        "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit",
        "mv .git old && mkdir .git && echo '[core]' > .git/config",
        "rm -rf .git/config .git/hooks; echo x > .git/config",
    ):
        assert (await run(command)).exit_code != 0, command
    assert (workspace / ".git" / "config").read_text() == before
    assert not (workspace / ".git" / "hooks").exists()
    log = ["git", "-C", str(workspace), "-c", "safe.directory=*", "log", "--format=%s"]
    assert output_of(*log) == "one\n"


SECRETS = (
    *(".ssh/id_ed25519", ".aws/credentials", ".gnupg/key", ".kube/config", ".docker/config.json"),
    *(".config/gh/hosts.yml", ".config/gcloud/credentials.db", ".netrc", ".npmrc", ".pypirc"),
    *(".git-credentials", ".cargo/credentials", ".cargo/credentials.toml", ".m2/settings.xml"),
    *(".config/rclone/rclone.conf", ".bash_history", ".zsh_history", ".python_history"),
    *(".local/share/fish/fish_history", ".local/share/keyrings/login.keyring", ".codex/auth.json"),
    *(".mozilla/firefox/p/logins.json", ".config/google-chrome/Default/Login Data", ".pgpass"),
    *(".claude/.credentials.json", ".claude.json", ".gemini/oauth_creds.json", ".password-store/a"),
    *(".config/op/config", ".terraform.d/credentials.tfrc.json", ".gem/credentials", ".env"),
    *(".config/BraveSoftware/a", ".node_repl_history", ".psql_history", ".my.cnf", ".azure/token"),
)


async def test_secrets_of_the_user_cannot_be_read(opened, home):
    for number, name in enumerate(SECRETS):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(f"secret {number}")
    (home / ".cargo" / "config.toml").write_text("open")
    paths = " ".join(f"'{home}/{name}'" for name in SECRETS)
    done = await opened()(f"cat {paths}; grep -rs secret {home}; cat {home}/.cargo/config.toml")
    assert re.findall(r"secret \d+", done.stdout) == []
    assert done.stdout.endswith("open")


async def test_secrets_of_the_workspace_and_folders_of_prsm_cannot_be_read(
    opened, workspace, outside_temp
):
    private = outside_temp / "config" / "prsm"
    for name in (".env", ".env.local", "deep/er/.env.production", "deep/.netrc", ".env.example"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(f"in {name}")
    private.mkdir(parents=True)
    (private / "config.yaml").write_text("in the settings")
    run = opened(private=(private,))
    everywhere = f"grep -rhs 'in ' . {private} {outside_temp}/state; cat deep/er/.env.production"
    assert (await run(everywhere)).stdout.strip() == "in .env.example"
    (workspace / "deep" / ".env").write_text("in one that came later")
    await run("echo stolen > deep/.env; mv deep/er/.env.production .; cp .env copy")
    assert (await run("cat deep/.env copy")).stdout == ""
    assert (workspace / "deep" / ".env").read_text() == "in one that came later"


@pytest.mark.parametrize("home", ["temp"], indirect=True)
async def test_a_home_in_the_temp_folder_hides_its_secrets_whatever_of_it_is_shown(
    opened, home, monkeypatch
):
    work = home / "work"
    work.mkdir()
    (home / ".netrc").write_text("secret home")
    steal = f"grep -rs -e secret -e private {home}; cat {home}/.netrc {home}/.ssh/id_rsa"
    assert (await opened(work=work)(steal)).stdout == ""
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{home}")  # so that its programs are found
    assert (await opened(work=work)(steal)).stdout == ""
    assert (await opened(work=home)(steal)).stdout == ""
    opening = opened(work=work, writable=(str(home),))
    assert (await opening(steal)).stdout == ""


async def test_a_workspace_that_is_the_home_hides_its_secrets_all_the_same(opened, home):
    run = opened(work=home)
    done = await run("cat .ssh/id_rsa .netrc; echo x > new; echo x > .bashrc; cat notes")
    assert done.stdout == "notes"
    assert (home / "new").exists()
    assert not (home / ".bashrc").exists()


async def test_a_workspace_within_a_hidden_folder_can_be_worked_in(opened, home):
    (home / ".config" / "gh" / "work").mkdir(parents=True)
    (home / ".config" / "gh" / "hosts.yml").write_text("token")
    done = await opened(work=home / ".config" / "gh" / "work")("echo x > new; cat ../hosts.yml")
    assert done.stdout == ""
    assert (home / ".config" / "gh" / "work" / "new").read_text() == "x\n"


@pytest.mark.skipif(os.getuid() != 0, reason="only root owns what only root may read")
async def test_root_does_not_read_the_passwords_of_the_machine(opened):
    done = await opened()("cat /etc/shadow /etc/gshadow /etc/sudoers; ls -A /etc/ssl/private")
    assert done.stdout == ""


async def test_a_command_ends_with_all_that_it_started(opened):
    left = f"sleep 4321.{uuid.uuid4().int}"
    await opened()(
        f"setsid -f {left}; setsid {left} & (setsid bash -c '{left} & {left}' &);"
        f" for p in $PPID 1 -1 $(ls /proc | grep '^[0-9]'); do kill -9 $p; done; exec {left}"
    )
    assert left not in output_of("ps", "-eo", "args").splitlines()


def closed_folder(path):
    """Return the highest folder above a path that others may not enter, None without one."""
    above = [*reversed(path.parents), path]
    return next((each for each in above if not each.stat().st_mode & 0o001), None)


def plain_user_argv(test_file):
    """Return the command line that runs a file of tests as the plain user; root only.

    In mounts of its own, so that an interpreter below root's home can be started all the same.
    """
    home = home_outside()
    needed = sorted({Path(path).resolve() for path in (sys.prefix, sys.base_prefix, REPOSITORY)})
    closed = {home, *filter(None, map(closed_folder, needed))}
    inside = [path for path in needed if any(path.is_relative_to(folder) for folder in closed)]
    stash = "".join(
        f"mkdir /mnt/{n}; mount --bind '{path}' /mnt/{n};" for n, path in enumerate(inside)
    )
    empty = "".join(f"mount -t tmpfs -o mode=755 none '{folder}';" for folder in sorted(closed))
    back = "".join(
        f"mkdir -p '{path}'; mount --bind /mnt/{n} '{path}';" for n, path in enumerate(inside)
    )
    script = (
        f"set -e; mount --make-rprivate /; mount -t tmpfs none /mnt; {stash}"
        f"{empty} {back}"
        f"mkdir {home}/plain; chown {PLAIN} {home}/plain; cd '{REPOSITORY}';"
        f"exec setpriv --reuid {PLAIN} --regid $(id -g {PLAIN}) --clear-groups"
        f" env -i PATH='{os.environ['PATH']}' HOME={home}/plain LANG=C.UTF-8"
        f" PYTHONPATH='{os.environ.get('PYTHONPATH', '')}' PYTHONDONTWRITEBYTECODE=1"
        f" {sys.executable} -m pytest -q -p no:cacheprovider -p no:xdist -rs"
        f" --basetemp {home}/plain/t '{test_file}' -k 'not plain_user'"
    )
    return ["unshare", "--mount", "bash", "-c", script]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("file", ["test_sandbox_attacks.py", "test_stand_ins.py"])
def test_the_same_holds_for_a_plain_user(file, request):
    if missing := [name for name in ("unshare", "setpriv") if shutil.which(name) is None]:
        pytest.skip(f"{', '.join(missing)} of util-linux is not installed")
    argv = plain_user_argv(Path(__file__).with_name(file))
    probe = [*argv[:-1], argv[-1].partition(" -m pytest")[0] + " -c 'import pytest, prsm_core'"]
    done = subprocess.run(probe, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        pytest.skip(f"{PLAIN} cannot run this Python: {done.stderr.strip()[-200:]}")
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None, done.stdout
    assert int(passed.group(1)) >= {"test_sandbox_attacks.py": 40, "test_stand_ins.py": 5}[file]
