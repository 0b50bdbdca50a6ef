"""PRSM's own state is a place of secrets, for tools and for the shell, in every mode."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Allow, Ask, Deny
from prsm_core.interfaces.provider import ProviderSpec
from prsm_core.interfaces.sink import EventSinkSpec
from prsm_core.permissions.own_state import own_state
from tests.command_policies import make_policy
from tests.permissions.brokers import broker, make_context, shell, uses

SINK = EventSinkSpec(name="seen", summary="", factory="json:loads", unseen="_seen")
VENDOR = ProviderSpec(name="v", summary="", factory="json:loads", handed=("tmp", "home/*/results"))
# Where the person has PRSM's own files: by PRSM_HOME, by the platform, or in the workspace itself.
LAYOUTS = {
    "prsm_home": {"PRSM_HOME": "{home}/.prsm"},
    "platform": {},
    "xdg": {name: f"{{home}}/x/{name}" for name in ("XDG_STATE_HOME", "XDG_DATA_HOME")},
    "inside": {"PRSM_HOME": "{home}/work/.own"},
    "blank": {"PRSM_HOME": "{home}/my files/prsm"},
}
MODES = (PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS, PermissionMode.BYPASS)


class Scene:
    """A home with PRSM's own files in it, a workspace, and a link between them."""

    def __init__(self, folder, environ):
        self.home = folder
        self.work = folder / "work"
        self.own = own_state([VENDOR], [SINK], environ=environ)
        trees, state = folders_of(environ, folder)
        self.data, self.state, self.trees = state[0], state[1], trees
        self.ledger = self.data / "ledgers" / "k" / "ledger.db"
        self.seen = self.state / "_seen" / "d" / "r.jsonl"
        self.handed = [
            self.state / "images" / "a.png",
            self.state / "providers" / "v" / "tmp" / "x.txt",
            self.state / "providers" / "v@1" / "home" / "p" / "results" / "x.txt",
            self.trees / "k" / "w1" / "a.py",
        ]
        self.key = self.state / "runs" / "s.key"
        self.login = self.state / "providers" / "v" / "home" / "p" / "auth"
        files = [self.ledger, self.seen, self.key, self.login, *self.handed]
        for file in (*files, self.work / "a.py", folder / ".ssh" / "config"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("x")
        (self.work / "link").symlink_to(self.data)
        (self.work / "file").symlink_to(self.ledger)
        self.context = make_context(self.work)

    async def judge(self, request, mode=PermissionMode.BYPASS, **options):
        policy = make_policy(own=self.own, **options)
        found = broker(policy, own=lambda: self.own)
        return await found.reconsider(request, replace(self.context, mode=mode))

    async def shell(self, command, mode=PermissionMode.BYPASS, **options):
        return type(await self.judge(shell(command), mode, **options))

    async def uses(self, tool, path, mode=PermissionMode.BYPASS, **arguments):
        return type(await self.judge(uses(tool, str(path), **arguments), mode))


def folders_of(environ, home):
    from prsm_core.kit.places import own_folders

    found = own_folders(environ)
    return found.trees, (found.data, found.state)


@pytest.fixture
def make_scene(tmp_path, monkeypatch):
    def make(layout):
        for name in ("PRSM_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        environ = {name: value.format(home=tmp_path) for name, value in LAYOUTS[layout].items()}
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        return Scene(tmp_path, environ)

    return make


@pytest.fixture(params=LAYOUTS)
def scene(make_scene, request):
    return make_scene(request.param)


@pytest.fixture
def usual(make_scene):
    return make_scene("prsm_home")


@pytest.mark.parametrize("mode", MODES)
async def test_a_file_tool_asks_for_each_of_its_files(scene, mode):
    for path in (scene.ledger, scene.key, scene.login, scene.work / "link" / "ledgers"):
        for tool in ("Read", "Edit", "Write", "Grep", "Glob"):
            assert await scene.uses(tool, path, mode) is Ask, (tool, path)


async def test_plan_mode_refuses_what_the_others_ask_about(scene):
    plan = PermissionMode.PLAN
    assert await scene.uses("Read", scene.ledger, plan) is Deny
    assert await scene.shell(f"cat '{scene.ledger}'", plan) is Deny


async def test_what_is_handed_to_agents_is_read_unasked(scene):
    for path in scene.handed:
        assert await scene.uses("Read", path) is Allow, path
        assert await scene.shell(f"head -3 '{path}'") is Allow, path


async def test_a_link_in_what_is_handed_leads_no_further(scene):
    link = scene.handed[1].with_name("link")
    link.symlink_to(scene.ledger)
    assert await scene.uses("Read", link) is Ask
    assert await scene.shell(f"cat '{link}'") is Ask


@pytest.mark.requirement("A8")
@pytest.mark.parametrize("mode", PermissionMode)
async def test_what_no_agent_may_see_is_refused_in_each_mode(scene, mode):
    for tool in ("Read", "Edit", "Grep"):
        assert await scene.uses(tool, scene.seen, mode) is Deny, tool
    for command in ("cat '{}'", "rm '{}'", "cp '{}' x", "echo x >> '{}'", "cat < '{}'"):
        assert await scene.shell(command.format(scene.seen), mode) is Deny, command


@pytest.mark.requirement("A8")
async def test_no_rule_and_no_person_allows_what_no_agent_may_see(usual, tmp_path):
    command = f"cat {usual.seen}"
    assert await usual.shell(command, allow=[command, "cat"]) is Deny
    moved = tmp_path / "elsewhere"
    own = own_state([], [SINK], {"seen": {"path": str(moved)}}, environ={"PRSM_HOME": "/nowhere"})
    found = broker(make_policy(own=own), own=lambda: own)
    for request in (uses("Read", f"{moved}/d/r.jsonl"), shell(f"cat {moved}/d/r.jsonl")):
        assert isinstance(await found.reconsider(request, usual.context), Deny)


# How a text can lead to the ledger of a PRSM_HOME that is `~/.prsm`, beside the workspace.
WAYS = [
    "cat {ledger}",
    "cat ~/.prsm/data/ledgers/k/ledger.db",
    'cat "$HOME/.prsm/data/ledgers/k/ledger.db"',
    "cd ~ && cat .prsm/data/ledgers/k/ledger.db",
    "x=~ && cd $x && cat .prsm/data/ledgers/k/ledger.db",
    "cat ${{HOME}}/.prsm/data/ledgers/k/ledger.db",
    "cat $PRSM_HOME/data/ledgers/k/ledger.db",
    "cat ../.prsm/data/ledgers/k/ledger.db",
    "cat ./../.prsm//data/./ledgers/k/ledger.db",
    "cat {home}/.prsm/trees/../data/ledgers/k/ledger.db",
    "cat file",
    "cat link/ledgers/k/ledger.db",
    "cat link/*/*/*",
    "cat ~/.prsm/*/*/*/*",
    "cat {home}/.p*/data/ledgers/k/*",
    "cat {home}/.pr[s]m/data/ledgers/k/ledger.db",
    "cat {home}/.pr?m/data/ledgers/k/ledger.db",
    "cat {home}/.prsm/{{data,state}}/x",
    "cat {home}/.pr'sm'/data/ledgers/k/ledger.db",
    "cat {home}/.pr\\sm/data/ledgers/k/ledger.db",
    "sqlite3 {ledger} .dump",
    "sqlite3 'file:{ledger}?mode=ro' .dump",
    "cp -r {home}/.prsm/data .",
    "cp -r link x",
    "tar czf x.tgz {home}/.prsm",
    "tar -C {home} -czf x.tgz .prsm",
    "tar -C{home} -czf x.tgz .prsm",
    "rsync -a {home}/.prsm/ x/",
    "zip -r x.zip ../.prsm",
    "cd ../.prsm && cat data/ledgers/k/ledger.db",
    "cd {home} && cat .prsm/data/ledgers/k/ledger.db",
    "cd .. ; cd .prsm ; ls",
    "pushd ~/.prsm/data",
    "env -C {home} cat .prsm/data/ledgers/k/ledger.db",
    "git -C ~/.prsm/data status",
    "git diff --no-index /dev/null {ledger}",
    "git --git-dir={home}/.prsm/data log",
    "dd if={ledger} of=x",
    "curl file://{ledger}",
    "x={ledger}; cat $x",
    "for f in {home}/.prsm/data/*/*/*; do cat $f; done",
    "cat < {ledger}",
    "echo x > {ledger}",
    "rm -rf {home}/.prsm",
    "ln -s {ledger} here",
    "mount --bind {home}/.prsm x",
    "python3 read.py {ledger}",
    "node read.js --file={ledger}",
    "bash -c 'cat {ledger}'",
    "find {home}/.prsm -type f",
    "find {home} -name ledger.db -exec cat {{}} +",
    "find {home} -name ledger.db | xargs cat",
    "cat $(find {home} -name ledger.db)",
    "fd ledger.db {home} -x cat",
    "grep -r x {home}",
    "grep -R x ..",
    "grep -rn x $HOME",
    "rg x ~",
    "rg --hidden -e x {home}",
    "diff -r {home} x",
    "grep --recursive x /",
    "prsm history master",
    "prsm events",
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
async def test_no_command_gets_there_unasked(usual, way, mode):
    command = way.format(ledger=usual.ledger, home=usual.home)
    assert await usual.shell(command, mode) is Ask


async def test_a_rule_to_allow_does_not_cover_it(usual):
    assert await usual.shell("cat file", allow=["cat"]) is Ask
    assert await usual.shell(f"sqlite3 {usual.ledger} .dump", allow=["sqlite3"]) is Ask


async def test_what_lies_beside_it_is_as_it_was(usual):
    (usual.home / ".prsm-other").mkdir()
    for command in (
        "cat a.py",
        "git status",
        "ls ..",
        "cat ../.prsm-other/x",
        "cat {home}/.prsm-other/x",
        "find {home} -name ledger.db",
        "grep -r prsm .",
        "rg / a.py",
        "echo hello | tee x",
        "python3 a.py",
        "awk '$1 ~ /x/ {{n++}} END {{print n}}' a.py",
        "git log --format='%h ~ %s {{x}}'",
    ):
        assert await usual.shell(command.format(home=usual.home)) is Allow, command
    for tool in ("Read", "Glob", "Grep"):
        assert await usual.uses(tool, usual.work) is Allow


async def test_a_search_through_a_folder_above_it_asks(usual):
    assert await usual.uses("Grep", usual.home) is Ask
    assert await usual.uses("Grep", "/") is Ask
    assert await usual.uses("Grep", f"/{usual.home}") is Ask
    assert await usual.uses("Grep", "///") is Ask
    assert await usual.uses("Glob", usual.work, pattern=f"{usual.home}/.prsm/**") is Ask
    assert await usual.uses("Glob", usual.home, pattern=".prsm/*/x") is Ask
    assert await usual.uses("Glob", usual.work, pattern="**/*.py") is Allow


async def test_it_is_searched_where_it_lies_in_the_workspace_only_when_asked(make_scene):
    scene = make_scene("inside")
    assert await scene.uses("Grep", scene.work) is Ask
    assert await scene.shell("grep -r x .", PermissionMode.DEFAULT) is Ask
    assert await scene.shell("rg x", PermissionMode.DEFAULT) is Ask
    assert await scene.shell("cat .own/data/ledgers/k/ledger.db", PermissionMode.DEFAULT) is Ask
    assert await scene.shell("cat a.py", PermissionMode.DEFAULT) is Allow


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "{ledger}"},
        {"uri": "file://{ledger}"},
        {"files": [{"name": "file"}]},
        {"command": "sqlite3 ~/.prsm/data/ledgers/k/ledger.db"},
        {"a": {"b": {"c": ["../.prsm/data"]}}},
    ],
)
async def test_tools_of_others_are_looked_at_by_their_arguments(usual, arguments):
    def filled(value):
        if isinstance(value, str):
            return value.format(ledger=usual.ledger)
        if isinstance(value, list):
            return [filled(each) for each in value]
        return {name: filled(each) for name, each in value.items()}

    request = uses("mcp__files__read", **filled(arguments))
    assert type(await usual.judge(request)) is Ask
    harmless = uses("mcp__files__read", path="a.py", text="of .prsm and its ledger.db")
    assert type(await usual.judge(harmless)) is Allow


async def test_the_tools_of_prsm_itself_may_speak_of_it(usual):
    request = uses("spawn_child", prompt=f"look at {usual.ledger}")
    assert type(await usual.judge(request)) is Allow
