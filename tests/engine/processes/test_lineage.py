"""From whom a process descends, however it tries to be nobody's."""

import os
import subprocess
import sys

from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.engine.processes.table import (
    find_lineage,
    find_marks,
    place_digests,
    process_identity,
)
from prsm_core.kit.clocks import SystemClock

DEADLINE = 20
# Says its pid and, from an orphan in a session of its own, the orphan's; ends with its stdin.
DAEMON = """
import os, sys
told, tell = os.pipe()
if os.fork() == 0:
    os.setsid()
    parent = os.getpid()
    if os.fork() == 0:
        while os.getppid() == parent:
            pass
        os.write(tell, str(os.getpid()).encode())
        os.read(0, 1)
    os._exit(0)
os.wait()
print(os.getpid(), os.read(told, 20).decode(), flush=True)
os.read(0, 1)
"""


def test_a_line_goes_from_a_process_to_one_that_has_no_parent_here():
    line = find_lineage(os.getpid())
    assert line is not None
    found = [relative.identity.pid for relative in line]
    assert found[:2] == [os.getpid(), os.getppid()]
    assert line[0].identity == process_identity(os.getpid())
    assert line[0].session == os.getsid(0)
    starts = [relative.identity.start_time for relative in line]
    assert starts == sorted(starts, reverse=True)


def test_a_process_that_has_ended_has_no_line():
    ended = subprocess.Popen(["true"])
    ended.wait(DEADLINE)
    assert find_lineage(ended.pid) is None


async def test_an_orphan_of_an_agent_stays_below_the_engine_and_is_marked(tmp_path):
    own = process_identity(os.getpid())
    async with ProcessLauncher(SystemClock(), places=[tmp_path]) as launcher:
        process = await launcher.start([sys.executable, "-c", DAEMON], name="daemon")
        words = (await anext(aiter(process.lines()))).split()
        head, orphan = (find_lineage(int(word)) for word in words)
        assert head is not None
        assert orphan is not None
        assert [line[1].identity.pid for line in (head, orphan)] == [process.pid] * 2, "the shim"
        assert own in {relative.identity for relative in orphan}
        [mark] = find_marks(orphan[:1])
        assert (mark.engine, mark.places) == (own, place_digests([tmp_path]))
        assert find_marks(orphan[-1:]) == []
