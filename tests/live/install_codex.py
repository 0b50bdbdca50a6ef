"""Installs the Codex CLI by npm into a folder of its own, for the live tests.

Without npm, or where the registry cannot be reached, it says so and succeeds: the live tests then
skip. Whatever else goes wrong is an error.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGE = "@openai/codex"
TESTED = "0.169"
RANGE = f"~{TESTED}.0"
INSTALL_TIMEOUT_S = 900  # the package holds a 400 MB binary

_UNREACHABLE = re.compile(
    r"\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT"
    r"|ERR_SOCKET_TIMEOUT|E50[0-4])\b"
)


def is_unreachable(npm_output: str) -> bool:
    """Return whether npm failed because it could not talk to its registry."""
    return bool(_UNREACHABLE.search(npm_output))


def installed_version(binary: Path) -> str | None:
    """Return what the installed CLI says it is, or None where there is none that runs."""
    try:
        done = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=60)
    except OSError:
        return None
    found = re.search(r"\d+\.\d+\.\d+", done.stdout)
    return found[0] if done.returncode == 0 and found else None


def install(npm: str, folder: Path) -> tuple[int, str]:
    """Run `npm install` in `folder`; return its exit code and output."""
    folder.mkdir(parents=True, exist_ok=True)
    argv = [
        npm,
        "install",
        "--prefix",
        str(folder),
        "--no-audit",
        "--no-fund",
        PACKAGE + "@" + RANGE,
    ]
    try:
        done = subprocess.run(
            argv,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return 1, "ETIMEDOUT: npm install did not end in time"
    return done.returncode, done.stdout


def main(folder: Path) -> int:
    """Make sure that `folder` holds a tested Codex CLI; return the exit code."""
    binary = folder / "node_modules" / ".bin" / "codex"
    version = installed_version(binary)
    if version is not None and version.startswith(TESTED + "."):
        sys.stdout.write(f"codex {version} is installed in {folder}\n")
        return 0
    npm = shutil.which("npm")
    if npm is None:
        sys.stdout.write("codex is not installed: npm is missing; the live tests will skip\n")
        return 0
    code, output = install(npm, folder)
    if code != 0:
        sys.stdout.write(output)
        if not is_unreachable(output):
            sys.stdout.write(f"npm install {PACKAGE}@{RANGE} failed with exit code {code}\n")
            return code
        sys.stdout.write("codex is not installed: npm cannot reach its registry; live tests skip\n")
        return 0
    version = installed_version(binary)
    sys.stdout.write(f"npm installed codex {version} in {folder}\n")
    return 0 if version is not None else 1


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]).absolute()))
