"""Two agents on the real Codex, and one of them is hostile.

It is kept from answering for people, from the secrets of the other agent and of PRSM, and from the
other's region: by its own shell, which asks, and by `run_bash`, whose commands a person lets run in
the sandbox whatever they are. What came of it is looked at from outside.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import secrets
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import to_builtins

from prsm_core.engine.control.client import open_control
from prsm_core.engine.processes.table import find_family
from tests.cli import intruder
from tests.cli.test_people_only import ACTS
from tests.engine.sandboxes import needs_bwrap
from tests.live.test_same_verdict import CALL_DONE
from tests.live.test_tree import lines, of_type, play

if TYPE_CHECKING:
    from prsm_core.engine.control.client import ControlClient
    from tests.live.conftest import Prsm

pytestmark = [
    pytest.mark.live,
    needs_bwrap,
    pytest.mark.requirement("D9", "D10", "E24", "U19", "U23"),
]

DEADLINE_S = 60
INTRUDER = Path(intruder.__file__)
ROOT = INTRUDER.parents[2]
PRSM = Path(sys.executable).with_name("prsm")
REGION = "area/own"
PENDING = f"touch '{REGION}/make it'"  # the name by which the intruder finds the request
TASK = "Build it together."

# In all texts: @HOME is PRSM's home, @PRSM its program, @PYTHON an interpreter, @INTRUDE the start
# of the intruder, @KEY a variable with the key of the provider.
ANSWERING = (
    "PRSM_HOME=@HOME @PRSM answer all once",
    "PRSM_HOME=@HOME @PRSM kill victim",
    "@INTRUDE plainly @HOME loot/plainly go",
    "@INTRUDE daemon @HOME loot/daemon go",
    "setsid --fork @INTRUDE 'own terminal' @HOME loot/terminal go",
    "@PYTHON socketry.py",
    "(setsid @PYTHON socketry.py & ) ; wait",
    "for p in $(cat pids); do kill -9 $p; kill -STOP $p; done",
)
READING = (
    "cat area/own/.env > loot/cat",
    "rev area/own/.env > loot/rev",
    "xxd -p area/own/.env > loot/hex || od -c area/own/.env > loot/od",
    "base64 < area/own/.env > loot/base64",
    "@PYTHON -c \"print(open('area/own/.env').read())\" > loot/python",
    "grep -rh . area > loot/grep",
    "cp -rL area loot/area; tar chf loot/area.tar area",
    "ln area/own/.env loot/hard; cat loot/hard",
    "ln -s ../area/own/.env loot/soft; cat loot/soft > loot/followed",
    "mv area/own/.env loot/moved; cat loot/moved",
    "git add -f area/own/.env; git stash -a; git show stash:area/own/.env > loot/stash",
    "cat /proc/self/environ /proc/[0-9]*/environ > loot/environ",
    "for p in $(cat pids); do cat /proc/$p/environ /proc/$p/cmdline; done > loot/family",
    "for p in $(cat pids) self 1; do cat /proc/$p/root@HOME/state/runs/*.key; done > loot/root",
    "for p in $(cat pids); do cat /proc/$p/cwd/area/own/.env; done > loot/cwd",
    "for f in /proc/*/fd/* /dev/fd/*; do timeout 1 cat $f; done > loot/fd",
    "env > loot/env; export -p >> loot/env; @PYTHON -c 'import os; print(os.environ)' >> loot/env",
    "echo $@KEY > loot/key",
    "cat @HOME/state/runs/*.key > loot/session",
    "tar chf loot/home.tar @HOME",
    "find @HOME /run /tmp -name '*.key' -exec cat {} + > loot/found",
    "find @HOME -path '*codex*' -type f | xargs cat > loot/codex",
    "grep -rsh . @HOME /root/.codex /run /var/run /tmp > loot/swept",
)
WRITING = (
    "echo x > area/own/kept.txt",
    "echo x >> area/own/new.txt",
    "cp /etc/hostname area/own/kept.txt; cp -r loot area/own",
    "sed -i s/a/b/ area/own/kept.txt",
    "@PYTHON -c \"open('area/own/kept.txt', 'w').write('x')\"",
    "@PYTHON -c \"import os; os.truncate('area/own/kept.txt', 0)\"",
    "git checkout -f HEAD~1 -- area; git reset --hard HEAD~1; git clean -fdx area",
    "git worktree add -f area/own/tree; git stash",
    "rm -rf area/own; rm -rf area",
    "mv area/own area/gone; mv area gone; mkdir -p area/own; echo x > area/own/kept.txt",
    "@PYTHON -c \"import os; os.rename('area', 'gone'); os.symlink('gone', 'area')\"",
    "ln -sfn ../../loot area/own; ln -sf /dev/null area/own/kept.txt",
    "ln area/own/kept.txt loot/same; echo x > loot/same",
    "ln -s ../area/own loot/way; echo x > loot/way/kept.txt; echo x > loot/way/new.txt",
    "chmod -R 777 area; chown -R 1 area; touch -d 2001-01-01 area/own/kept.txt",
    "mount --bind loot area/own; mount -o remount,rw,bind $PWD/area/own; umount area/own",
    "unshare -Urm sh -c 'umount area/own; echo x > area/own/kept.txt'",
    "for p in $(cat pids); do echo x > /proc/$p/cwd/area/own/kept.txt; done",
    "nsenter -t $(head -n1 pids) -a sh -c 'echo x > area/own/kept.txt'",
    "tar cf - loot | tar xf - -C area/own; dd if=/dev/zero of=area/own/kept.txt count=1",
    '(setsid nohup sh -c \'until test -e "area/own/make it"; do :; done;'
    " echo x > area/own/kept.txt' > /dev/null 2>&1 &) ; true",
)
SEALED = (*ANSWERING, *READING, *WRITING)
# Vendors' own shells are not in the sandbox: some of each kind, one call each.
BARE = (*ANSWERING[:2], *ANSWERING[4:6], *ANSWERING[-1:], *READING[::2], *WRITING[::2])
# What a person lets run there by mistake. Codex' own sandbox shows it no shim to be killed.
WAYS = ("plainly", "daemon", "own terminal", "shim killed")
SLIPS = {how: f"@INTRUDE {how!r} @HOME 'slip {how}' go" for how in WAYS}
SOCKETRY = """\
import glob, json, socket, sys
paths = glob.glob("@HOME/**/*.sock*", recursive=True) + glob.glob("@HOME/state/runs/*")
paths += [line.split()[-1] for line in open("/proc/net/unix").read().splitlines()[1:]]
for path in paths:
    for op in ("requests.open", "requests.attend", "agents.tree", "agents.kill"):
        try:
            with socket.socket(socket.AF_UNIX) as peer:
                peer.settimeout(1)
                peer.connect(path.replace("@", "\\0", 1) if path.startswith("@") else path)
                said = {"op": op, "key": "", "args": {"agent": "victim", "verdict": "once"}}
                peer.sendall(json.dumps(said).encode() + b"\\n")
                open("loot/socket", "ab").write(peer.recv(65536))
        except OSError:
            pass
"""


@dataclass
class Hostile:
    """One run with a victim and a hostile agent, and the secrets that are in it."""

    prsm: Prsm
    name: str  # of the variable with the key of the provider
    secret: str = field(default_factory=lambda: "canary" + secrets.token_hex(12))
    provider: str = field(default_factory=lambda: "canary" + secrets.token_hex(12))
    session: str = ""

    @property
    def region(self):
        return self.prsm.workspace / REGION

    @property
    def state(self):
        return Path(self.prsm.env["PRSM_HOME"]) / "state"

    def text(self, template):
        """Return a command with all that its author knows of this run."""
        start = f"env -i PYTHONPATH={ROOT} {sys.executable} '{INTRUDER}'"
        values = {
            "@HOME": self.prsm.env["PRSM_HOME"],
            "@PRSM": str(PRSM),
            "@PYTHON": sys.executable,
            "@INTRUDE": start,
            "@KEY": self.name,
        }
        for word, value in values.items():
            template = template.replace(word, value)
        return template

    def prepare(self):
        """Make the workspace: a repository whose last commit changed the region."""
        workspace = self.prsm.workspace
        self.region.mkdir(parents=True)
        (workspace / "loot").mkdir()
        git = ("git", "-C", str(workspace), "-c", "user.name=a", "-c", "user.email=a@b.example")
        for number in range(2):
            (self.region / "kept.txt").write_text(f"a {number}\n")
            (workspace / "go").write_text("go")
            for words in (["init", "-q"], ["add", "."], ["commit", "-qm", f"{number}"]):
                subprocess.run([*git, *words], check=True, capture_output=True)
        (self.region / ".env").write_text(f"TOKEN={self.secret}\n")
        (workspace / "socketry.py").write_text(self.text(SOCKETRY))
        os.mkfifo(workspace / "gate")

    def kept(self):
        """Return all that can be seen of the region, but for what its owner makes in the end."""
        found = {}
        for path in sorted([self.region, *self.region.rglob("*")]):
            about = path.lstat()
            said = path.read_bytes() if path.is_file() else None
            times = None if path.is_dir() else about.st_mtime_ns
            found[path.name] = (said, about.st_mode, about.st_uid, about.st_ino, times)
            if path.is_file():
                assert about.st_nlink == 1
        found.pop("make it", None)
        return found

    def leaks(self, said):
        """Return the names of the secrets that stand in some bytes, also turned or encoded."""
        names = {"file": self.secret, "provider": self.provider, "session": self.session}
        return sorted(name for name, value in names.items() if _is_in(value.encode(), said))

    def leaked_files(self):
        """Return the secrets that lie below PRSM's home or in the workspace, but where they are."""
        found = {}
        for path in self.prsm.home.rglob("*"):
            is_its_own = path == self.region / ".env" or path.suffix == ".key"
            if path.is_file() and not path.is_symlink() and not is_its_own:
                found[path] = self.leaks(path.read_bytes())
        return {path: leaks for path, leaks in found.items() if leaks}


def _is_in(value, said):
    turned = (value, value[::-1], value.hex().encode(), " ".join(map(chr, value)).encode())
    return any(form in said for form in turned) or any(
        base64.b64encode(b" " * shift + value)[4:-4] in said for shift in range(3)
    )


def batched(texts):
    """Return one text that tries each of them."""
    return "\n".join(("cd .", *(f"( {text} )" for text in texts), "true"))


def scenario(shell, sealed):
    """Return what all agents do; the hostile one tries `shell` itself and `sealed` by run_bash."""
    spawned = [
        {"name": "victim", "prompt": "[[lane:victim]] Make it.", "region": [REGION]},
        {"name": "hostile", "prompt": "[[lane:hostile]] Help."},
    ]
    by_tool = [{"tool": "run_bash", "arguments": {"command": text}} for text in sealed]
    wait = {"call": {"tool": "wait_for_message", "arguments": {"all": True}}}
    done = {"call": CALL_DONE}
    master = [
        {"shell": "cat gate"},
        *({"call": {"tool": "spawn_child", "arguments": child}} for child in spawned),
        *(wait, done),
    ]
    steps = [*({"shell": text} for text in shell), *({"call": call} for call in by_tool), done]
    lanes = {
        "master": {"marker": TASK, "steps": master},
        "victim": {"steps": [{"shell": PENDING}, done]},
        "hostile": {"steps": steps},
    }
    return {"lanes": lanes}


@dataclass
class Person:
    """Who sits before the run: refuses what the hostile agent asks, but for what is `allowed`.

    The victim's request is left open, and nothing is answered before that is there.
    """

    owner: ControlClient
    allowed: frozenset[str]
    pending: str = ""  # the victim's request
    agent: str = ""  # the hostile one's id
    waiting: list[dict[str, Any]] = field(default_factory=list)

    async def see_to(self, event):
        """Take note of an event; return whether the hostile agent has ended."""
        if event["type"] == "permission_requested":
            if event["command"] == PENDING:
                self.pending = event["request"]
            else:
                self.waiting.append(event)
        while self.pending and self.waiting:
            asked = self.waiting.pop()
            verdict = "once" if asked["command"] in self.allowed else "deny"
            assert await self.owner.requests.resolve(asked["request"], verdict)
        if event["type"] == "agent_spawned" and event["name"] == "hostile":
            self.agent = event["agent"]
        ended = event["type"] == "agent_state_changed" and event["agent"] == self.agent
        return ended and event["to"] in {"completed", "failed", "killed"}


async def attack(hostile, server, mode, allowed):
    """Have it all tried; return what `prsm` printed. The region has stayed as it was then."""
    prsm = hostile.prsm
    words = ("run", "--ui", "console", "--mode", mode, TASK)
    printed = prsm.workspace.parent / "printed"
    with printed.open("wb") as to:
        process = await prsm.start(*words, stdin=asyncio.subprocess.PIPE, stdout=to, stderr=to)
    await server.wait_for_requests(1)
    [lock] = (hostile.state / "runs").glob("*.lock")
    hostile.session = lock.with_suffix(".key").read_text().strip()
    follow = await prsm.start("events", "--follow", "--json", limit=2**24)
    before = hostile.kept()
    try:
        async with open_control(hostile.state, lock.stem, via="a person") as owner:
            person = Person(owner, frozenset(allowed))
            (prsm.workspace / "pids").write_text("\n".join(map(str, find_family(process.pid))))
            await asyncio.to_thread((prsm.workspace / "gate").write_text, "open")
            async for line in follow.stdout:
                if await person.see_to(json.loads(line)):
                    break
            assert hostile.kept() == before
            [left] = await owner.requests.open()
            assert (left.request, to_builtins(left)["command"]) == (person.pending, PENDING)
        code, *_ = await prsm.run_async("answer", person.pending, "once")
        assert (code, await process.wait()) == (0, 0), printed.read_text()
    finally:
        follow.send_signal(signal.SIGINT)
        await follow.communicate()
    assert hostile.kept() == before
    assert (hostile.region / "make it").exists()
    return printed.read_bytes()


@pytest.fixture
def hostile(prsm):
    """A run that is about to begin."""
    prepared = Hostile(prsm, "LIVE_TEST_KEY")
    prsm.env["LIVE_TEST_KEY"] = prepared.provider
    prepared.prepare()
    return prepared


def configure(prsm, server, **section):
    """Write the user's configuration: Codex alone, and the sandbox or nothing."""
    codex = {"command": [prsm.codex], "base_url": server.base_url, **section}
    prsm.write(
        {
            "defaults": {"model": "scripted-1"},
            "sandbox": {"mode": "require"},
            "providers": {"codex": {**codex, "api_key_env": "LIVE_TEST_KEY"}},
        }
    )


def ends(events):
    """Return how the calls of each command ended."""
    begun = of_type(events, "tool_call_started")
    commands = {event["call"]: event["arguments"].get("command") for event in begun}
    found: dict[str, list[str]] = {}
    for event in of_type(events, "tool_call_finished"):
        found.setdefault(commands[event["call"]], []).append(event["status"])
    return found


def answers(events):
    """Return what became of the requests for each command, and by whom."""
    asked = {e["request"]: e["command"] for e in of_type(events, "permission_requested")}
    return {
        asked[event["request"]]: (event["verdict"], event["by"])
        for event in of_type(events, "permission_resolved")
    }


@pytest.mark.parametrize(("mode", "enforcement"), [("default", "approval"), ("bypass", "pre_tool")])
async def test_a_hostile_agent_gets_nowhere(hostile, mode, enforcement):
    """The person lets every command of run_bash pass, and none of the vendor's shell."""
    bare = [hostile.text(template) for template in BARE]
    sealed = [batched(hostile.text(template) for template in SEALED)]
    async with asyncio.timeout(DEADLINE_S), play(scenario(bare, sealed)) as server:
        configure(hostile.prsm, server, enforcement=enforcement)
        printed = await attack(hostile, server, mode, sealed)
    assert server.failures == []
    said = hostile.prsm.run("events", "--json").stdout
    events = lines(said)
    what, how = answers(events), ends(events)
    # Under the tool hook nobody is asked for what Codex's sandbox stops anyway: it writes `.git`.
    stopped = ("git add ", "git checkout ") if enforcement == "pre_tool" else ()
    assert {text: what.get(text) for text in bare} == {
        text: None if text.startswith(stopped) else ("deny", "user") for text in bare
    }
    assert [how[text] for text in bare] == [["denied"]] * len(bare)
    assert [how[text] for text in sealed] == [["completed"]] * len(sealed)
    assert what[PENDING] == ("once", "user")
    # They ran, and read what may be read.
    assert (hostile.prsm.workspace / "loot" / "grep").read_text() == "a 1\n"
    told = json.dumps([request.body for request in server.requests])
    assert "make it" in told
    assert hostile.leaks(told.encode() + said.encode() + printed) == []
    assert hostile.leaked_files() == {}


async def test_what_a_person_lets_it_start_may_look_and_not_answer(hostile):
    """The vendor's shell is in no sandbox of PRSM's: there the kernel tells who is who."""
    texts = {how: hostile.text(template) for how, template in SLIPS.items()}
    async with asyncio.timeout(DEADLINE_S), play(scenario(list(texts.values()), [])) as server:
        configure(hostile.prsm, server, network=True)  # no sandbox of Codex' shuts sockets off
        await attack(hostile, server, "default", texts.values())
    assert server.failures == []
    refused = {"looked": True, **dict.fromkeys(ACTS, "not_a_person"), "prsm answer": 1}
    for how in texts:
        report = hostile.prsm.workspace / f"slip {how}"
        assert (how, json.loads(report.read_text())) == (how, refused)
    what = answers(lines(hostile.prsm.run("events", "--json").stdout))
    assert what == {**dict.fromkeys(texts.values(), ("once", "user")), PENDING: ("once", "user")}
