"""Patches: their paths, and the one command that is nothing but a patch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_codex import hooks

PATCH = """\
*** Begin Patch
*** Add File: a.txt
+one
*** Update File: /etc/b
*** Move to: ../c
@@
-x
*** Delete File: d e
*** End Patch
"""


def test_every_path_counts_where_a_file_is_moved_to_included():
    assert list(hooks.patched_paths(PATCH, "/w")) == ["/w/a.txt", "/etc/b", "/w/../c", "/w/d e"]


@pytest.mark.parametrize("quote", ["'", '"'])
@pytest.mark.parametrize("program", ["apply_patch", " applypatch "])
def test_a_command_that_only_applies_a_patch_is_that_patch(program, quote):
    assert hooks.patch_of(f"{program}<<{quote}EOF{quote}\n{PATCH}EOF\n") == PATCH


@pytest.mark.parametrize(
    "command",
    [
        f"apply_patch <<'EOF'\n{PATCH}EOF\nrm -rf x",
        f"apply_patch <<'EOF'\nEOF\nrm -rf x\n{PATCH}EOF",
        f"apply_patch <<EOF\n{PATCH}EOF",
        f"apply_patch <<'EOF'; rm x\n{PATCH}EOF",
        f"apply_patch <<'EOF' && rm x\n{PATCH}EOF",
        f"apply_patch -x <<'EOF'\n{PATCH}EOF",
        f"cd /etc && apply_patch <<'EOF'\n{PATCH}EOF",
        f"./apply_patch <<'EOF'\n{PATCH}EOF",
        f"apply_patch <<'EOF\"\n{PATCH}EOF",
        "apply_patch a",
        "ls",
        "",
    ],
)
def test_anything_else_is_a_command(command):
    assert hooks.patch_of(command) is None


@given(st.text(), st.text())
def test_what_follows_the_end_of_the_text_is_never_hidden_in_a_patch(before, after):
    command = f"apply_patch <<'EOF'\n{before}\nEOF\n{after}"
    body = hooks.patch_of(command)
    assert body is None or (not after.strip() and "EOF" not in body.split("\n"))
