"""Stands in for `codex exec`: says what a file holds, and keeps what it is asked.

    python exec_script.py FOLDER exec …

FOLDER holds `turns.json`, a list of {"lines", "stderr", "code"} of which each run takes the next.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path


def main(folder: Path, arguments: list[str]) -> int:
    """Play one run."""
    if "--version" in arguments:
        sys.stdout.write("codex-cli 0.161.0\n")
        return 0
    runs = sorted(folder.glob("run-*.json"))
    asked = {"argv": arguments, "prompt": sys.stdin.read(), "env": dict(os.environ)}
    (folder / f"run-{len(runs)}.json").write_text(json.dumps(asked))
    turn = json.loads((folder / "turns.json").read_text())[len(runs)]
    sys.stderr.write(turn.get("stderr", ""))
    for line in turn.get("lines", ()):
        sys.stdout.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
    sys.stdout.flush()
    if turn.get("hang"):
        signal.pause()
    if turn.get("signal"):
        os.kill(os.getpid(), turn["signal"])
    return int(turn.get("code", 0))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
