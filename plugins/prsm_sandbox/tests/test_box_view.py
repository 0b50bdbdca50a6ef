"""What a box sees, and what runtimes are told of it: pure, so that it is tried on many boxes."""

from __future__ import annotations

import csv
import os
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_sandbox import cgroups
from prsm_sandbox.box_runtimes import BoxStart, bwrap_argv, podman_argv, runc_argv, runc_config
from prsm_sandbox.box_view import TEMP, BoxView, Mount, box_view
from prsm_sandbox.boxes import describe_end

from prsm_core.domain.boxes import Box
from prsm_core.errors import ProcessError
from prsm_core.executors import BoxState

WORDS = st.text("ab,:= \u00e9\"'", min_size=1, max_size=6).filter(lambda text: text.strip())
PATHS = st.lists(WORDS, min_size=1, max_size=4).map(lambda words: "/" + "/".join(words))
MOUNTS = st.builds(Mount, target=PATHS, source=st.one_of(st.none(), PATHS), writable=st.booleans())
VIEWS = st.builds(
    BoxView,
    mounts=st.lists(MOUNTS, max_size=6).map(tuple),
    links=st.just((("bin", "usr/bin"),)),
    cwd=PATHS,
)
LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "memory": st.integers(2**24, 2**40),
        "cpus": st.floats(0.01, 64),
        "pids": st.integers(16, 10**6),
    },
)
STARTS = st.builds(
    lambda **fields: BoxStart(**fields),
    name=st.just("prsm-1-a-1"),
    argv=st.lists(st.text(max_size=8), min_size=1).map(tuple),
    env=st.dictionaries(WORDS.map(lambda text: text.replace("=", "_")), st.text(max_size=5)),
    view=VIEWS,
    box=st.builds(Box, network=st.booleans()),
    limits=LIMITS,
)


@given(STARTS, st.one_of(st.none(), st.just((1000, 1001))), st.booleans())
def test_runc_is_told_every_mount_variable_and_limit_and_no_capability(start, ids, swap):
    config = runc_config(start, "/root-1", ids, swap=swap)
    told = config["mounts"][-len(start.view.mounts) :] if start.view.mounts else []
    for mount, one in zip(start.view.mounts, told, strict=True):
        assert one["destination"] == mount.target
        assert one["source"] == (mount.source or "tmpfs")
        is_writable = mount.source is None or mount.writable
        assert ("ro" in one["options"]) is not is_writable
        assert {"nosuid", "nodev"} <= set(one["options"])
    process = config["process"]
    assert process["args"][-len(start.argv) :] == list(start.argv)
    assert process["env"] == [f"{name}={value}" for name, value in start.env.items()]
    assert (process["capabilities"], process["noNewPrivileges"]) == ({}, True)
    resources = config["linux"]["resources"]
    assert ("memory" in resources, "cpu" in resources, "pids" in resources) == tuple(
        name in start.limits for name in ("memory", "cpus", "pids")
    )
    if "memory" in start.limits:
        assert (
            resources["memory"].get("swap", resources["memory"]["limit"]) == start.limits["memory"]
        )
    kinds = {namespace["type"] for namespace in config["linux"]["namespaces"]}
    assert kinds >= {"pid", "mount", "ipc", "uts"}
    assert ("network" in kinds, "user" in kinds) == (not start.box.network, ids is not None)


@given(STARTS)
def test_podman_and_bubblewrap_are_told_the_same_mounts_before_the_program(start):
    podman, bwrap = podman_argv(start, "/root-1"), bwrap_argv(start, (5,))
    assert podman[-len(start.argv) :] == bwrap[-len(start.argv) :] == start.argv
    options = podman[: podman.index("--rootfs")]
    told = [next(csv.reader([options[i + 1]])) for i, w in enumerate(options) if w == "--mount"]
    assert [dict(f.split("=", 1) for f in one)["dst"] for one in told] == [
        mount.target for mount in start.view.mounts
    ]
    assert ("none" in options, "--unshare-net" in bwrap) == (not start.box.network,) * 2
    assert ("--memory" in options) is ("memory" in start.limits)
    for mount in start.view.mounts:
        assert mount.target in bwrap
    for name in start.env:
        assert name in options
    values = set(start.env.values()) - start.env.keys()
    assert not any(value in options for value in values if len(value) > 4)


def test_runc_keeps_a_container_until_its_end_was_looked_at():
    assert runc_argv("/state", "/bundle", "name") == (
        *("runc", "--root", "/state", "run", "--keep"),
        *("--bundle", "/bundle", "name"),
    )


@pytest.fixture
def places(tmp_path):
    """A folder with a file, a folder, a link, and what lies behind it."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    (tmp_path / "folder" / "in").mkdir()
    return tmp_path


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "a relative mount": ({"mounts": {"/x": "rel/folder"}}, "no whole path", "begin it with /"),
    "a relative place": ({"mounts": {"x": "{}/folder"}}, "no whole path", "begin it with /"),
    "dots": ({"mounts": {"/x": "{}/folder/../file"}}, "not plain", "write {}/file"),
    "dots in a place": ({"mounts": {"/x/../usr": "{}/folder"}}, "not plain", "write /usr"),
    "a zero byte": ({"mounts": {"/x\0": "{}/folder"}}, "not plain", "write /x"),
    "nothing there": ({"mounts": {"/x": "{}/none"}}, "there is no {}/none", "make it first"),
    "a link": ({"mounts": {"/x": "{}/link"}}, "is a link", "name {}/folder itself"),
    "behind a link": ({"mounts": {"/x": "{}/link/in"}}, "is a link", "name {}/folder/in itself"),
    "a device": ({"mounts": {"/x": "/dev/null"}}, "is a device", "none of the machine's"),
    "over the system": ({"mounts": {"/usr/lib": "{}/folder"}}, "the system's", "/mnt/NAME"),
    "over all": ({"mounts": {"/": "{}/folder"}}, "the system's", "/mnt/NAME"),
    "over processes": ({"mounts": {"/proc/1": "{}/folder"}}, "the system's", "/mnt/NAME"),
    "over its temp": ({"mounts": {TEMP: "{}/folder"}}, "the box's own", f"{TEMP}/NAME"),
    "in what it writes": (
        {"mounts": {"{}/folder/in": "{}/file"}, "writable": ("{}/folder",)},
        "the box may write {}/folder",
        "/mnt/NAME",
    ),
    "in another one": ({"mounts": {"/x": "{}/folder", "/x/no": "{}/file"}}, "there is no", "make"),
    "writable and relative": ({"writable": ("folder",)}, "no whole path", "begin it with /"),
    "writable dots": ({"writable": ("{}/folder/..",)}, "not plain", "write"),
    "writable and missing": ({"writable": ("{}/none",)}, "there is no", "make it first"),
    "writable link": ({"writable": ("{}/link",)}, "is a link", "name {}/folder itself"),
    "all writable": ({"writable": ("/",)}, "cannot be writable", "of your own"),
    "system writable": ({"writable": ("/usr",)}, "cannot be writable", "in it"),
    "settings writable": ({"writable": ("/etc",)}, "cannot be writable", "of your own"),
    "kernel writable": ({"writable": ("/proc",)}, "cannot be writable", "of your own"),
    "too little memory": ({"memory": 1024}, "memory is 1024", "or more"),
    "no processor": ({"cpus": 0.0}, "cpus is 0.0", "or more"),
    "not a number": ({"cpus": float("nan")}, "cpus is nan", "or more"),
    "endless": ({"cpus": float("inf")}, "cpus is inf", "no limit"),
    "too few processes": ({"pids": 1}, "pids is 1", "or more"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_box_that_cannot_be_had_is_refused_with_the_cure(case, places):
    fields, message, cure = REFUSED[case]

    def filled(value):
        if isinstance(value, str):
            return value.replace("{}", str(places))
        if isinstance(value, dict):
            return {filled(key): filled(one) for key, one in value.items()}
        return tuple(map(filled, value)) if isinstance(value, tuple) else value

    with pytest.raises(ProcessError) as caught:
        box_view(Box(**{name: filled(value) for name, value in fields.items()}), None, "/home/me")
    assert filled(message) in caught.value.message
    assert filled(cure) in str(caught.value.hint)


def test_a_folder_of_what_it_writes_can_be_read_only(places):
    inner = str(places / "folder" / "in")
    view = box_view(Box(mounts={inner: inner}, writable=(str(places / "folder"),)), None, None)
    told = {mount.target: mount.writable for mount in view.mounts}
    assert (told[str(places / "folder")], told[inner]) == (True, False)


def test_what_the_system_shows_already_is_mounted_once(places):
    view = box_view(Box(mounts={"/usr/bin": "/usr/bin"}), None, None)
    assert "/usr/bin" not in {mount.target for mount in view.mounts}


@pytest.mark.parametrize(
    "home", ["/", "/usr/games", "relative", "/etc/x", f"{TEMP}/home", "/a/../b"]
)
def test_an_odd_home_is_none_of_its_own(home):
    assert all(mount.target != home or mount.source for mount in box_view(Box(), None, home).mounts)


@given(st.lists(PATHS, max_size=4))
def test_what_lies_in_another_comes_after_it(tmp_path_factory, paths):
    base = tmp_path_factory.getbasetemp() / "deep"
    folders = []
    for path in paths:
        folder = base / path[1:]
        folder.mkdir(parents=True, exist_ok=True)
        folders.append(str(folder))
    targets = [m.target for m in box_view(Box(writable=tuple(folders)), None, "/home/me").mounts]
    for place, target in enumerate(targets):
        above = {str(parent) for parent in PurePosixPath(target).parents}
        assert not above & set(targets[place:])


def test_a_path_inside_is_known_by_the_innermost_mount(places):
    folder = str(places / "folder")
    view = box_view(Box(mounts={"/mnt/x": folder}), None, "/home/me")
    assert view.outside("/mnt/x/in") == f"{folder}/in"
    assert (
        view.outside("/home/me/x") is view.outside("/nowhere") is view.outside(f"{TEMP}/x") is None
    )
    assert view.outside("/usr/bin/sh") == "/usr/bin/sh"
    assert os.path.realpath(view.outside("/bin/sh") or "") == os.path.realpath("/bin/sh")


V1 = "4:memory:/outer/a\n1:cpu,cpuacct:/\n2:name=systemd:/\n0::/unit/engine\n"
MOUNTED = """\
30 29 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs rw
31 30 0:27 /outer /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
32 30 0:28 / /sys/fs/cgroup/cpu rw shared:1 - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""


def test_groups_lie_below_those_of_the_engine():
    assert cgroups.find_parents(V1, MOUNTED) == {
        "memory": Path("/sys/fs/cgroup/memory/a"),
        "cpu": Path("/sys/fs/cgroup/cpu"),
        "cpuacct": Path("/sys/fs/cgroup/cpu"),
        "": Path("/sys/fs/cgroup/unified/unit"),
    }


@pytest.mark.parametrize(
    ("file", "text", "held"),
    [
        ("memory.max", "67108864\n", {"memory"}),
        ("memory.max", "max\n", set()),
        ("cpu.max", "50000 100000\n", {"cpus"}),
        ("cpu.max", "max 100000\n", set()),
        ("pids.max", "17\n", {"pids"}),
        ("pids.max", "max\n", set()),
    ],
)
def test_limits_of_the_second_version_are_read_back(tmp_path, file, text, held):
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / file).write_text(text)
    assert cgroups.held_limits({"": tmp_path}, "box") == held


def test_a_limit_of_the_first_version_that_is_none_is_told_from_one(tmp_path):
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    (tmp_path / "box" / "cpu.cfs_quota_us").write_text("-1\n")
    assert cgroups.held_limits({"memory": tmp_path, "cpu": tmp_path}, "box") == frozenset()


def test_events_of_the_second_version_are_counted(tmp_path):
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    (tmp_path / "box" / "pids.events").write_text("max 5\n")
    assert cgroups.kills_by_memory({"": tmp_path}, "box") == 2
    assert cgroups.refused_forks({"": tmp_path}, "box") == 5


def test_what_is_not_held_is_told_with_the_reason():
    box = Box(memory=2**30, pids=100)
    loose = BoxState(runtime="bwrap", reason="runc is not installed")
    assert loose.gaps(box) == ("bwrap does not limit memory, pids here: runc is not installed",)
    assert loose.gaps(Box()) == ()
    assert BoxState(runtime="", reason="none").gaps(Box()) == ("there are no boxes here: none",)
    held = BoxState(runtime="runc", holds=frozenset({"memory", "pids"}))
    assert held.gaps(box) == ()


def test_an_end_by_no_limit_tells_nothing():
    assert describe_end({"memory": 2**26}, kills=0, refusals=0) == ""
