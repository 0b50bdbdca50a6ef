"""An agent that uses aism: bootstrap: it reads its page and moves to inbox; inbox: it completes."""

import os
import subprocess
import sys
from pathlib import Path


def aism(*words):
    subprocess.run(["aism", *words], check=True)


for line in sys.stdin:
    if "in state 'bootstrap'" in line:
        page = Path(os.environ["PRSM_PROTOCOLS"], "bootstrap.md").read_text()
        assert page.startswith("# Protocol: bootstrap")
        aism("state", "transition", "inbox", "--context", '{"bootstrap": "complete"}')
    elif "in state 'inbox'" in line:
        aism("complete", "Python has read everything")
        break
