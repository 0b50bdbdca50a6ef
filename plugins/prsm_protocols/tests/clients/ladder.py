"""An agent that climbs: in state sN it moves to sN+1, and at the top it completes.

In its home it notes each move that it was told of as made.
"""

import re
import subprocess
import sys
from pathlib import Path


def aism(*words):
    return subprocess.run(["aism", *words], check=False).returncode


TOP = len(re.findall(r"^- s\d+: ", Path("/protocols/ladder.md").read_text(), re.MULTILINE)) - 1
for line in sys.stdin:
    found = re.search(r"in state 's(\d+)'", line)
    if found and int(found[1]) == TOP:
        sys.exit(aism("complete", "at the top"))
    if found and aism("state", "transition", there := f"s{int(found[1]) + 1}") == 0:
        with Path.home().joinpath("made").open("a") as made:
            made.write(f"{there}\n")
