"""Stands in for `codex exec`: says what a file holds, and keeps what it is asked.

    python exec_script.py FOLDER exec …
    python exec_script.py --fault=NAME --marks=FOLDER exec …

FOLDER holds `turns.json`, a list of {"lines", "stderr", "code"} of which each run takes the next,
maybe `version`, and `no-server` where its app-server does not start.
With a fault it does what `exec_faults.py` says.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
from contextlib import suppress
from pathlib import Path


def misbehave(arguments: list[str]) -> int:
    """Do what an order says, the first of the arguments."""
    root = Path(__file__).parents[3]
    sys.path[:0] = [str(root), str(root / "plugins" / "prsm_testing")]
    from prsm_testing.faults import Marks

    from plugins.prsm_codex.tests.exec_faults import FAULTS

    fault = FAULTS[str(Marks.take(arguments))]
    if "--version" in arguments:
        fault["version"]()
    if "app-server" in arguments:  # by which the hook comes to be trusted
        serve(arguments)
        return 0
    if "start" in fault:
        fault["start"]()
    with suppress(OSError):  # it may have closed it
        sys.stdin.read()
    code = int(fault["turn"](None))
    if "end" in fault:
        fault["end"]()
    return code


def serve(arguments: list[str]) -> None:
    """Be the app-server, by which the private home is made."""
    sys.argv = ["fake_codex.py", *arguments]
    runpy.run_path(str(Path(__file__).with_name(sys.argv[0])), run_name="__main__")


def main(folder: Path, arguments: list[str]) -> int:
    """Play one run."""
    if "--version" in arguments:
        version = folder / "version"
        sys.stdout.write(version.read_text() if version.exists() else "codex-cli 0.161.0\n")
        return 0
    if "app-server" in arguments:
        if (folder / "no-server").exists():
            sys.stderr.write("no app-server here\n")
            return 1
        serve(arguments)
        return 0
    runs = sorted(folder.glob("run-*.json"))
    asked = {"argv": arguments, "prompt": sys.stdin.read(), "env": dict(os.environ)}
    if "-p" in arguments:
        layer = f"{arguments[arguments.index('-p') + 1]}.config.toml"
        asked["layer"] = Path(os.environ["CODEX_HOME"], layer).read_text()
    (folder / f"run-{len(runs)}.json").write_text(json.dumps(asked))
    turn = json.loads((folder / "turns.json").read_text())[len(runs)]
    sys.stderr.write(turn.get("stderr", ""))
    if "--ephemeral" not in arguments:  # the vendor's program keeps the thread then
        sessions = Path(os.environ["CODEX_HOME"], "sessions")
        sessions.mkdir(parents=True, exist_ok=True)
        (sessions / f"rollout-{len(runs)}.jsonl").write_text(str(asked["prompt"]))
    for line in turn.get("lines", ()):
        sys.stdout.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
    sys.stdout.flush()
    if turn.get("hang"):
        signal.pause()
    if turn.get("signal"):
        os.kill(os.getpid(), turn["signal"])
    return int(turn.get("code", 0))


if __name__ == "__main__":
    if sys.argv[1].startswith("--fault="):
        code = misbehave(sys.argv[1:])
        sys.stdout.flush()
        os._exit(code)  # also where its input was closed
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
