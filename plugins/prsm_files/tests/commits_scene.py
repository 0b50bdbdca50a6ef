"""What the tests of commits share: changes of agents, accepted, and a look at the person's git."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from prsm_files.commits import Asked, Committer

from plugins.prsm_files.tests.changes_scene import Tracked, found_by, wanted
from plugins.prsm_files.tests.shadow_scene import every_byte

if TYPE_CHECKING:
    from prsm_files.changes.merging import Wanted

TEXT = [f"line {n}\n" for n in range(1, 40)]


def edited(**lines):
    """Return the text with lines replaced, by number."""
    text = list(TEXT)
    for name, line in lines.items():
        text[int(name[1:])] = line
    return "".join(text)


class Committed(Tracked):
    """A folder that is tracked from `begin` on; each `change` is one by an agent."""

    def __init__(self, tmp_path, **more):
        super().__init__(tmp_path, **more)
        self.count = 0
        self.agents = {}

    def begin(self):
        self.watch = super().begin()
        return self.watch

    def found(self, agent="w1"):
        """Find what has changed since the last look, as changes of an agent, newest first."""
        made = wanted(found_by(self.watch).found, self.count)
        self.count += len(made)
        self.agents.update((one.id, agent) for one in made)
        return made

    def change(self, path, data, agent="w1", mode=None):
        """Write a file as an agent does; return the changes."""
        self.write(path, data, mode)
        return self.found(agent)

    def by_person(self, path, data):
        """Write a file as a person does between two runs: no look tells of it."""
        self.write(path, data)
        self.watch.begin()

    def asked(self, *changes):
        """Return what is asked for: a commit for each agent, in the order of first changes."""
        ordered = sorted((one for some in changes for one in some), key=lambda c: int(c.id[1:]))
        groups: dict[str, list[Wanted]] = {}
        for one in ordered:
            groups.setdefault(self.agents[one.id], []).append(one)
        return [
            Asked(message=f"by {agent}\n\nPRSM-Agent: {agent}\n", changes=tuple(mine))
            for agent, mine in groups.items()
        ]

    def committer(self, git=None):
        return Committer(self.shadow(git=git))

    def commit_accepted(self, *changes):
        """Commit changes, as their owner does, and see that no file changed by it."""
        before = every_byte(self.folder)
        committer = self.committer()
        outcome = committer.commit("s", self.asked(*changes))
        committer.finish()
        assert every_byte(self.folder) == before
        assert not (self.folder / ".git" / "index.lock").exists()
        assert not (self.folder / ".git" / "index.prsm").exists()
        self.git("fsck", "--strict", "--no-dangling")
        return outcome

    def at(self, spec):
        """Return a file as a commit, or with ":" the index, has it; None for no file."""
        return self.git_raw("show", spec)

    def git_raw(self, *args):
        """Return all that git prints; None where it fails."""
        done = subprocess.run(
            ["git", *args], cwd=self.folder, env=self.environ, capture_output=True, check=False
        )
        return None if done.returncode else done.stdout.decode("utf-8", "surrogateescape")

    def status(self):
        """Return the status as the person sees it, by path."""
        said = self.git_raw("status", "--porcelain", "-z", "--untracked-files=all")
        return {line[3:]: line[:2] for line in said.split("\0") if line}


def why(outcome):
    """Return why changes were left out, by id."""
    return {one.id: one.why for one in outcome.left}
