"""Runs a command of prsm and kills this process at the nth thing that it does to files or ledger.

That is before it changes a file anywhere, and before and after each command of git and each commit.
"""

import sys

from prsm_files.session.git_process import GitHelper

from plugins.prsm_files.tests.dying import Death
from prsm_core.cli import main
from prsm_core.store import SqliteStore


def run(step, words):
    death = Death(step)
    run_git, commit = GitHelper.__call__, SqliteStore.commit

    def run_dying(self, *args, **more):
        death.step()
        output = run_git(self, *args, **more)
        death.step()
        return output

    async def commit_dying(self, one):
        death.step()
        done = await commit(self, one)
        death.step()
        return done

    for owner, name, new in (
        (GitHelper, "__call__", run_dying),
        (SqliteStore, "commit", commit_dying),
    ):
        setattr(owner, name, new)
    sys.addaudithook(death.heed)
    death.is_armed = True
    return main(words)


sys.exit(run(int(sys.argv[1]), sys.argv[2:]))
