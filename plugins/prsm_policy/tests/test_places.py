"""Where a command may read and write: inside the workspace, wherever links lead."""

from __future__ import annotations

import pytest

from plugins.prsm_policy.tests.judging import decide
from prsm_core.domain.agents import PermissionMode

BYPASS = PermissionMode.BYPASS


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("cat notes/../README.md", "ask"),
        ("cat link", "ask"),
        ("cat src/link", "ask"),
        ("cat README.md", "allow"),
        ("cd src && cat inner", "ask"),
        ("cd src && cat app.py", "allow"),
        ("cd src | cat app.py", "allow"),
        ("cd src | cat inner", "ask"),
        ("ls | cd src; cat inner", "ask"),
        ("cd a; cd b; cd c; cd d; cd e; cd f; cd g; cd h; ls", "ask"),
        ("cat " + "a/" * 2_000, "ask"),
    ],
)
def test_links_that_lead_out_of_the_workspace_are_followed(tmp_path, command, verdict):
    (tmp_path / "secret").write_text("x")
    workspace = tmp_path / "workspace"
    (workspace / "src").mkdir(parents=True)
    for name in ("link", "src/link", "src/inner"):
        (workspace / name).symlink_to(tmp_path / "secret")
    assert decide(command, workspace) == verdict


def test_nothing_is_safe_outside_the_workspace(tmp_path):
    assert decide("ls", tmp_path, cwd="/") == "ask"
    assert decide("touch x", tmp_path, cwd="/", mode=BYPASS) == "ask"
    assert decide("ls", tmp_path, cwd=tmp_path / "src") == "allow"
    for cwd in ("..", "a\0b", "\ud800", "x" * 5_000):
        assert decide("ls ..", tmp_path, cwd=cwd) == "ask"


def test_an_absolute_path_in_the_workspace_is_ordinary(tmp_path):
    assert decide(f"cat {tmp_path}/README.md", tmp_path) == "allow"
    assert decide(f"cat {tmp_path}x/README.md", tmp_path) == "ask"


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("touch src/x", "allow"),
        ("touch ../x", "ask"),
        ("echo x > out/x", "allow"),
        ("echo x > ../x", "ask"),
        ("echo x > /etc/x", "ask"),
        ("echo x > ~/x", "ask"),
        ('echo x > "$X"', "ask"),
        ("echo x > link", "ask"),
        ("cp a link", "allow"),
        ("cp a /usr/bin/x", "ask"),
        ("cd .. && touch x", "ask"),
        ("cd src && touch x", "allow"),
    ],
)
def test_in_bypass_mode_writing_outside_the_workspace_asks(tmp_path, command, verdict):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "link").symlink_to(tmp_path / "elsewhere")
    assert decide(command, workspace, mode=BYPASS) == verdict
