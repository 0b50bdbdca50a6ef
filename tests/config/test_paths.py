"""Where things lie, and that what PRSM creates is the user's alone."""

import errno
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from prsm_core.config import ledger_path, private_dir, resolve_paths
from prsm_core.config.paths import temp_notice
from prsm_core.errors import ConfigError


def test_one_folder_may_hold_everything(tmp_path):
    paths = resolve_paths(tmp_path / "work", {"PRSM_HOME": str(tmp_path / "home")})
    home = tmp_path / "home"
    assert (paths.user_config, paths.user_models) == (home / "config.yaml", home / "models.yaml")
    assert (paths.data, paths.state) == (home / "data", home / "state")
    assert paths.workspace_config == tmp_path / "work" / ".prism" / "config.yaml"
    assert paths.workspace_models == paths.workspace_dir / "models.yaml"
    assert ledger_path(paths, "repo-1") == home / "data" / "ledgers" / "repo-1" / "ledger.db"
    assert not home.exists()


def test_without_it_the_platform_decides(monkeypatch, tmp_path):
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    paths = resolve_paths(tmp_path, {"PRSM_HOME": ""})
    folders = [paths.user_config.parent, paths.data, paths.state]
    assert all(folder.name == "prsm" for folder in folders)
    assert len(set(folders)) == 3


def test_a_relative_home_and_workspace_are_made_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    paths = resolve_paths(Path("work"), {"PRSM_HOME": "home"})
    assert paths.user_config == tmp_path / "home" / "config.yaml"
    assert paths.workspace == tmp_path / "work"


def test_a_workspace_reached_by_a_link_is_the_real_one(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert resolve_paths(tmp_path / "link", {}).workspace == (tmp_path / "real").resolve()


def test_created_folders_are_private_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        path = private_dir(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    assert path == tmp_path / "a" / "b" / "c"
    for folder in (path, path.parent, path.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert private_dir(path) == path


def test_a_folder_that_cannot_be_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="is not a folder"):
        private_dir(tmp_path / "file")
    with pytest.raises(ConfigError, match="cannot be created: Not a directory"):
        private_dir(tmp_path / "file" / "below")


def test_state_among_temporary_files_is_told_unless_the_user_chose_it(monkeypatch):
    temp = Path(tempfile.gettempdir())
    monkeypatch.setenv("XDG_DATA_HOME", str(temp / "data"))
    notice = temp_notice(resolve_paths(temp, {}), {})
    assert notice is not None
    assert "PRSM_HOME" in notice
    chosen = {"PRSM_HOME": str(temp / "home")}
    assert temp_notice(resolve_paths(temp, chosen), chosen) is None
    monkeypatch.setenv("XDG_DATA_HOME", "/var/lib/somewhere")
    assert temp_notice(resolve_paths(temp, {}), {}) is None


def test_the_paths_alone_cost_neither_the_settings_nor_yaml():
    code = (
        "import sys, pathlib\n"
        "from prsm_core.config import resolve_paths\n"
        "resolve_paths(pathlib.Path('.'), {'PRSM_HOME': 'x'})\n"
        "heavy = {'prsm_core.config.schema', 'yaml', 'asyncio', 'sqlite3'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_home_that_is_no_folder_is_refused(tmp_path):
    file = tmp_path / "file"
    file.touch()
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    for home in (file, tmp_path / "gone", tmp_path / "loop"):
        with pytest.raises(ConfigError, match="which is not a folder") as caught:
            resolve_paths(tmp_path, {"PRSM_HOME": str(home)})
        assert caught.value.message.startswith(f"PRSM_HOME is {home}, ")
        assert caught.value.hint == "set it to a folder, or unset it"


@pytest.mark.parametrize("home", ["~nobody-of-this-name/prsm", "x" * 300])
def test_a_home_that_cannot_be_looked_at_is_refused(tmp_path, home):
    with pytest.raises(ConfigError, match=r"PRSM_HOME is .* cannot be used") as caught:
        resolve_paths(tmp_path, {"PRSM_HOME": home})
    assert caught.value.hint


def test_a_workspace_that_cannot_be_found_is_refused(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for workspace in (tmp_path / "loop", Path("~nobody-of-this-name")):
        with pytest.raises(ConfigError, match="cannot be found"):
            resolve_paths(workspace, {"PRSM_HOME": str(tmp_path)})


@pytest.fixture
def homes(tmp_path, monkeypatch):
    """Every folder of configuration and state, by PRSM_HOME and by the platform's conventions."""
    home = tmp_path / "home"
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    found = {}
    for environ in ({"PRSM_HOME": str(home)}, {}):
        paths = resolve_paths(tmp_path, environ)
        for folder in (paths.user_config.parent, paths.data, paths.state):
            private_dir(folder)
            found[folder] = environ
    assert len(found) == 6
    return found


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777])
def test_a_folder_that_others_can_write_to_is_refused(homes, tmp_path, mode):
    for folder, environ in homes.items():
        folder.chmod(mode)
        with pytest.raises(ConfigError, match=f"{folder}: other users can write") as caught:
            resolve_paths(tmp_path, environ)
        assert caught.value.hint == f"chmod 700 {folder}"
        folder.chmod(0o755)
        resolve_paths(tmp_path, environ)


def test_a_folder_of_another_owner_is_refused_by_root_too(homes, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    for folder, environ in homes.items():
        os.chown(folder, 65534, -1)
        with pytest.raises(ConfigError, match=rf"{folder}: belongs to another user \(uid 65534"):
            resolve_paths(tmp_path, environ)
        os.chown(folder, 0, -1)
        resolve_paths(tmp_path, environ)


def test_a_link_of_another_owner_is_refused_though_it_leads_to_a_folder_of_ones_own(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can give a link away")
    (tmp_path / "own").mkdir(mode=0o700)
    link = tmp_path / "link"
    link.symlink_to("own")
    resolve_paths(tmp_path, {"PRSM_HOME": str(link)})
    os.chown(link, 65534, -1, follow_symlinks=False)
    with pytest.raises(ConfigError, match="belongs to another user"):
        resolve_paths(tmp_path, {"PRSM_HOME": str(link)})


def test_a_folder_of_root_is_refused_by_a_plain_user(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    os.seteuid(65534)
    try:
        with pytest.raises(ConfigError, match=r"/usr: belongs to another user \(uid 0"):
            resolve_paths(tmp_path, {"PRSM_HOME": "/usr"})
    finally:
        os.seteuid(0)


def test_where_no_temporary_folder_can_be_written_state_lies_in_none(tmp_path, monkeypatch):
    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert temp_notice(resolve_paths(tmp_path, {}), {}) is None
