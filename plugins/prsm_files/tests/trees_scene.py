"""What the tests of worktrees share: a repository of a person, and worktrees made from it."""

from __future__ import annotations

from prsm_files.shadow.whereabouts import Where
from prsm_files.worktrees.worktrees import Whose, Worktrees

from plugins.prsm_files.tests.shadow_scene import Scene, every_byte


class Grove(Scene):
    """A repository with a commit, in which a person has begun other things."""

    def __init__(self, tmp_path, *, is_dirty=True):
        super().__init__(tmp_path)
        self.write("a", text())
        self.write("b", "b\n")
        self.write("folder/c", "c\n")
        self.write(".gitignore", "ignored\n")
        self.commit()
        if is_dirty:
            self.write("a", text(n2="the person's\n"))
            self.write("untracked", "a secret\n")
            self.write("ignored", "x\n")
            self.write("staged", "s\n")
            self.git("add", "staged")
        self.set_places(tmp_path)

    def set_places(self, base):
        self.where = Where(self.state, base / "trees")

    def trees(self, folder=None):
        return Worktrees(self.shadow(folder), self.where)

    def make(self, name="w1", folder=None, **more):
        """Make a worktree, and return what is known of it."""
        return self.trees(folder).make(Whose("session", f"id-{name}", name), **more).tree

    def settle(self, tree, message="what w1 did", **more):
        return self.trees().settle(tree.id, message, **more)

    def bytes(self):
        return every_byte(self.folder)

    def branch(self, tree):
        """Return the files of the branch's commit, and what they hold."""
        listed = self.git("ls-tree", "-r", "--name-only", tree.branch).splitlines()
        return {name: self.git("show", f"{tree.branch}:{name}") for name in listed}

    def everything(self):
        """Return all that a merge may not touch of the person's git."""
        return {**self.person(), "staged": self.staged(), "stash": self.git("stash", "list")}


def text(**lines):
    """Return twenty lines, some of which are others."""
    return "".join(lines.get(f"n{n}", f"line {n}\n") for n in range(20))


def inside(tree, path):
    """Return a file of a worktree."""
    from pathlib import Path

    return Path(tree.folder, path)
