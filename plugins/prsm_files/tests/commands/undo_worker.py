"""A process that begins one like itself for each number that it reads, and tells how it ended.

That one runs `prsm undo --prompt`, and dies at the numbered thing that it does: before it changes a
file, and before and after each command of git and each commit. -1 is before the first commit.
"""

import os
import signal
import sys

from prsm_files.commands.snapshots import restoring
from prsm_files.session.git_process import GitHelper

from plugins.prsm_files.tests.dying import Death
from prsm_core.cli import main
from prsm_core.store import SqliteStore


def undo(step):
    death = Death(step)
    run, commit, carry_out = GitHelper.__call__, SqliteStore.commit, restoring._with_files

    def run_dying(self, *args, **more):
        death.step()
        output = run(self, *args, **more)
        death.step()
        return output

    async def commit_dying(self, one):
        death.step() if step >= 0 else os.kill(os.getpid(), signal.SIGKILL)
        done = await commit(self, one)
        death.step()
        return done

    async def armed(*args):
        death.is_armed = True
        return await carry_out(*args)

    for owner, name, new in (
        (GitHelper, "__call__", run_dying),
        (SqliteStore, "commit", commit_dying),
        (restoring, "_with_files", armed),
    ):
        setattr(owner, name, new)
    sys.addaudithook(death.heed)
    return main(["undo", "--prompt", "--yes", "--json"])


def serve():
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            os._exit(undo(int(line)))
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


serve()
