"""Trust is in content: whatever changes under .prism ends it."""

import json
import multiprocessing
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.config import resolve_paths, trust
from prsm_core.config.own_rules import change_rule
from prsm_core.config.snapshot import MAX_BYTES, MAX_DEPTH, take_snapshot
from prsm_core.errors import ConfigError


@pytest.fixture
def paths(place):
    place.workspace("engine: {}\n")
    return place.paths


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


CHANGES = {
    "other bytes": lambda folder: write(folder / "config.yaml", "engine: {a: 1}\n"),
    "a new file": lambda folder: write(folder / "agents" / "expert.md", "hello"),
    "an empty folder": lambda folder: (folder / "agents").mkdir(),
    "another name": lambda folder: (folder / "config.yaml").rename(folder / "config.yml"),
    "a file gone": lambda folder: (folder / "config.yaml").unlink(),
    "a link": lambda folder: (folder / "models.yaml").symlink_to("/etc/passwd"),
    "a named pipe": lambda folder: os.mkfifo(folder / "pipe"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_trust_ends_when_the_content_changes(paths, change):
    assert not trust.is_trusted(paths)
    digest = trust.trust(paths)
    assert trust.is_trusted(paths)
    CHANGES[change](paths.workspace_dir)
    assert not trust.is_trusted(paths)
    assert trust.trust(paths) != digest
    assert trust.is_trusted(paths)


def test_trust_comes_back_with_the_content(paths):
    trust.trust(paths)
    paths.workspace_config.write_text("other")
    paths.workspace_config.write_text("engine: {}\n")
    assert trust.is_trusted(paths)


def test_trust_is_in_one_workspace_and_can_be_taken_back(paths, tmp_path):
    trust.trust(paths)
    copy = resolve_paths(tmp_path / "copy", {"PRSM_HOME": str(tmp_path / "home")})
    write(copy.workspace_config, "engine: {}\n")
    assert take_snapshot(copy.workspace).digest == take_snapshot(paths.workspace).digest
    assert not trust.is_trusted(copy)
    assert trust.untrust(paths)
    assert not trust.is_trusted(paths)
    assert not trust.untrust(paths)


@pytest.mark.requirement("E24")
def test_a_workspace_without_configuration_can_be_trusted_until_there_is_some(tmp_path):
    paths = resolve_paths(tmp_path, {"PRSM_HOME": str(tmp_path / "home")})
    assert take_snapshot(tmp_path).digest is None
    assert not trust.is_trusted(paths)
    assert not trust.untrust(paths)
    trust.trust(paths)
    assert trust.is_trusted(paths)
    paths.workspace_dir.mkdir()
    assert trust.is_trusted(paths), "an empty folder holds nothing"
    paths.workspace_config.write_text("")
    assert not trust.is_trusted(paths)
    paths.workspace_config.unlink()
    assert trust.is_trusted(paths)
    assert trust.untrust(paths)
    assert not trust.is_trusted(paths)


def test_a_rule_of_the_users_own_keeps_the_trust_in_a_workspace_without_configuration(tmp_path):
    paths = resolve_paths(tmp_path, {"PRSM_HOME": str(tmp_path / "home")})
    trust.trust(paths)
    assert change_rule(paths, "allow", ("frob",), project=True)
    assert trust.is_trusted(paths)
    assert [effect.text for effect in trust.review(paths).effects] == ['rule allow ["frob"]']
    assert not trust.review(paths).added


def test_a_link_is_hashed_by_where_it_points_and_never_followed(paths, tmp_path):
    (tmp_path / "outside").write_text("one")
    link = paths.workspace_dir / "link"
    link.symlink_to(tmp_path / "outside")
    trust.trust(paths)
    (tmp_path / "outside").write_text("two")
    assert trust.is_trusted(paths)
    link.unlink()
    link.symlink_to(tmp_path / "elsewhere")
    assert not trust.is_trusted(paths)


def test_a_link_in_place_of_the_folder_is_no_folder(paths, tmp_path):
    digest = trust.trust(paths)
    paths.workspace_dir.rename(tmp_path / "moved")
    paths.workspace_dir.symlink_to(tmp_path / "moved")
    assert take_snapshot(paths.workspace).digest != digest


TREES = st.dictionaries(
    st.text(st.sampled_from("abc"), min_size=1, max_size=3), st.binary(max_size=8), max_size=4
)


@given(one=TREES, two=TREES)
def test_two_trees_have_the_same_hash_only_if_they_are_the_same(tmp_path_factory, one, two):
    hashes = []
    for tree in (one, two):
        workspace = tmp_path_factory.mktemp("tree")
        (workspace / ".prism").mkdir()
        for name, data in tree.items():
            (workspace / ".prism" / name).write_bytes(data)
        hashes.append(take_snapshot(workspace).digest)
    assert (hashes[0] == hashes[1]) == (one == two)


def test_a_huge_or_bottomless_folder_is_refused(paths):
    huge = paths.workspace_dir / "huge"
    huge.touch()
    os.truncate(huge, MAX_BYTES + 1)
    with pytest.raises(ConfigError, match=r"too much lies under \.prism"):
        trust.trust(paths)
    huge.unlink()
    deep = paths.workspace_dir.joinpath(*["d"] * (MAX_DEPTH + 1))
    deep.mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"too much lies under \.prism"):
        trust.trust(paths)


def test_the_list_is_written_for_this_user_alone_and_leaves_nothing_behind(paths):
    trust.trust(paths)
    assert stat.S_IMODE(paths.data.stat().st_mode) == 0o700
    assert stat.S_IMODE((paths.data / "trust.json").stat().st_mode) == 0o600
    assert sorted(path.name for path in paths.data.iterdir()) == [
        "trust.json",
        "trust.lock",
        "trusted",
    ]
    assert stat.S_IMODE((paths.data / "trusted").stat().st_mode) == 0o700
    [record] = (paths.data / "trusted").iterdir()
    assert stat.S_IMODE(record.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "[]", '{"/a": 1}', "{", "\xff"])
def test_a_damaged_list_is_an_error_and_trusts_nothing(paths, text):
    trust.trust(paths)
    (paths.data / "trust.json").write_text(text, encoding="latin-1")
    for call in (trust.is_trusted, trust.trust, trust.untrust):
        with pytest.raises(ConfigError, match="cannot be read as the list") as caught:
            call(paths)
        assert caught.value.hint == "delete it; no workspace is trusted then"


def test_a_list_that_may_not_be_read_is_not_called_damaged(paths):
    (paths.data / "trust.json").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"trust\.json: cannot be read: Is a directory") as caught:
        trust.is_trusted(paths)
    assert caught.value.hint == "allow reading it, or move it away"


def _trust_many(home, folder, numbers):
    for number in numbers:
        trust.trust(resolve_paths(folder / str(number), {"PRSM_HOME": str(home)}))


def test_several_processes_lose_none_of_each_others_trust(tmp_path):
    home = tmp_path / "home"
    for number in range(20):
        write(tmp_path / str(number) / ".prism" / "config.yaml", "")
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=_trust_many, args=(home, tmp_path, range(start, 20, 2)))
        for start in (0, 1)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    known = json.loads((home / "data" / "trust.json").read_text())
    assert set(known) == {str(tmp_path / str(number)) for number in range(20)}


@pytest.mark.parametrize("change", [trust.trust, trust.untrust])
def test_trust_that_cannot_be_written_is_told_with_the_file(paths, change):
    trust.trust(paths)
    lock = paths.data / "trust.lock"
    lock.unlink()
    lock.mkdir()
    with pytest.raises(
        ConfigError, match=r"trust\.lock: cannot be written: Is a directory"
    ) as told:
        change(paths)
    assert told.value.hint is not None
    assert trust.is_trusted(paths)
