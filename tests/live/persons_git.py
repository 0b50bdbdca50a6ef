"""What a person does with git in the folder of a run."""

from __future__ import annotations

import subprocess


def git(folder, *args):
    """Run git as the person does, and return what it says."""
    who = ("-c", "user.name=n", "-c", "user.email=e@x")
    argv = ["git", *who, *args]
    return subprocess.run(argv, cwd=folder, check=True, capture_output=True, text=True).stdout
