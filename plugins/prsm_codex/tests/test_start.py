"""What is imported before Codex can be started: all of it the person waits for."""

import subprocess
import sys

PROGRAM = "import prsm_codex.provider, sys; print(*sys.modules)"


def test_what_only_a_session_needs_is_imported_while_codex_starts():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )
    imported = set(done.stdout.split())
    late = {"session", "exec_session", "responder", "events", "rollout", "going_on"}
    assert not imported & {f"prsm_codex.{name}" for name in late}
