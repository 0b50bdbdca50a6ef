"""Changes as a patch that git can read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prsm_core.files import text_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prsm_core.files import FileChange
    from prsm_files.shadow.root import Root
    from prsm_files.shadow.worktree import Shadow

_NOTHING = "/dev/null"


def patch(shadow: Shadow, changes: Iterable[FileChange]) -> str:
    """Return changes one after the other, each with its head. Raises PrsmError."""
    with shadow.at_work():
        parts = []
        for change in changes:
            root = text_path(change.root)
            if shadow.has_root(root):
                parts.append(_one(shadow.root(root), change))
        return "".join(parts)


def _one(root: Root, change: FileChange) -> str:
    path = change.path
    head = [f"diff --git a/{path} b/{path}"]
    if change.old_mode is None:
        head.append(f"new file mode {change.new_mode}")
    elif change.new_mode is None:
        head.append(f"deleted file mode {change.old_mode}")
    elif change.old_mode != change.new_mode:
        head += [f"old mode {change.old_mode}", f"new mode {change.new_mode}"]
    if change.note:
        return "\n".join([*head, f"# its content is not kept: {change.note}", ""])
    old = _NOTHING if change.old_mode is None else f"a/{path}"
    new = _NOTHING if change.new_mode is None else f"b/{path}"
    body = _body(root, change)
    if body.startswith("@@"):
        head += [f"--- {old}", f"+++ {new}"]
    return "\n".join([*head, body])


def _body(root: Root, change: FileChange) -> str:
    if change.before == change.after:
        return ""
    empty = root.shadow.word("hash-object", "-w", "--stdin")
    options = ("--no-color", "--no-ext-diff", "--no-textconv")
    blobs = (change.before or empty, change.after or empty)
    said = os.fsdecode(root.shadow.run("diff", *options, *blobs))
    text = said.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    start = text.find("\n@@")
    if start >= 0:
        return text[start + 1 :]
    return "Binary files differ\n" if text else ""
