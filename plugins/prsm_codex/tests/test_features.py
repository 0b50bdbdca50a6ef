"""What is used of a version of Codex, and what it leaves open."""

from __future__ import annotations

import pytest
from prsm_codex.config import CodexConfig, Features


@pytest.mark.parametrize(
    ("version", "settings", "enforcement", "terminals_open"),
    [
        ("0.169.0", {}, "pre_tool", False),
        ("0.168.9", {}, "approval", False),
        ("1.0.0", {}, "pre_tool", False),
        (None, {}, "pre_tool", False),
        ("0.162.9", {}, "approval", True),
        ("0.169.0", {"enforcement": "approval"}, "approval", False),
        ("0.169.0", {"backend": "exec"}, "pre_tool", False),
        ("0.162.9", {"backend": "exec"}, "sandbox", False),
    ],
)
def test_what_reaches_the_permission_function(version, settings, enforcement, terminals_open):
    features = Features.of(CodexConfig(**settings), version)
    assert features.enforcement == enforcement
    assert any("terminal" in gap for gap in features.gaps) is terminals_open
    leaves = any("outside Codex's sandbox" in gap for gap in features.gaps)
    assert leaves is (enforcement == "approval")


@pytest.mark.parametrize("backend", ["app-server", "exec"])
def test_a_version_without_the_hook_says_so_and_what_is_done_instead(backend):
    features = Features.of(CodexConfig(backend=backend), "0.161.0")
    (first, *_) = features.gaps
    assert "no tool hook" in first
    assert "from 0.169 on" in first


def test_who_asked_for_approvals_is_not_told_of_the_hook():
    features = Features.of(CodexConfig(enforcement="approval"), "0.161.0")
    assert not features.too_old
    assert not any("tool hook" in gap for gap in features.gaps)
