"""What an agent's command does to answer for a person: `intruder.py HOW HOME OUT GO`.

It waits until GO can be read, tries all it can on the session that runs below PRSM's HOME, and
writes what became of that to OUT. HOW says what it does first, to be nobody's.
"""

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

from prsm_core.domain.permissions import Answer
from prsm_core.engine.control.client import open_control
from prsm_core.errors import PrsmError


def kill_shims():
    """Kill every reaper shim above this process."""
    line, pid = [], os.getppid()
    while pid > 1:
        line.append(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    for pid in line:
        if b"reaper_shim.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)


async def try_all(state):
    [session] = [path.stem for path in (state / "runs").glob("*.lock")]
    async with open_control(state, session, via="prsm answer") as owner:
        [request] = [one for one in await owner.requests.open() if "make it" in repr(one)]
        tries = {
            "resolve": owner.requests.resolve(request.request, "once"),
            "answer": owner.requests.answer(request.request, Answer(text="yes")),
            "kill": owner.agents.kill("maker"),
            "prompt": owner.agents.prompt("maker", "go on"),
            "set_model": owner.agents.set_model("maker", "second"),
            "restart": owner.agents.restart("maker", "again"),
            "attend": owner.requests.attend(),
        }
        told: dict[str, object] = {"looked": bool(await owner.agents.tree())}
        for name, trying in tries.items():
            try:
                told[name] = f"done: {await trying}"
            except PrsmError as error:
                told[name] = error.code
    return told, request.request


def attack(how, home):
    """Try it by the socket, then by the command of a person."""
    if how == "shim killed":
        kill_shims()
    state = Path(home) / "state"
    told, request = asyncio.run(try_all(state))
    main = "import sys; from prsm_core.cli import main; sys.exit(main())"
    os.environ.update(PRSM_HOME=home, PRSM_PLUGINS="")
    command = [sys.executable, "-c", main, "answer", request, "once"]
    if how == "own terminal":
        told["prsm answer"] = os.waitstatus_to_exitcode(pty.spawn(command))
    else:
        done = subprocess.run(command, capture_output=True, check=False)
        told["prsm answer"] = done.returncode
    return told


def main(how, home, out, go):
    Path(go).read_text()
    with Path(out).open("w") as report:  # whoever reads there sees its end, however this ends
        if how in {"daemon", "shim killed"}:
            ended, ending = os.pipe()
            if os.fork():
                report.close()
                os.close(ending)
                os.read(ended, 1)  # the family goes with its head
                return
            os.setsid()
            if os.fork():
                os._exit(0)
            os.setsid()
        report.write(json.dumps(attack(how, home)))


if __name__ == "__main__":
    main(*sys.argv[1:])
