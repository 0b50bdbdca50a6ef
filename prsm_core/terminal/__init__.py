"""What a frontend on a terminal shares with the commands of the core.

cells       how wide texts are, and how they are cut into rows
table       tables that fit
wording     requests and problems in lines, and what is typed as an answer
foreground  whether the terminal is this process' own now
follow      frontends that follow one run, or a session that another process runs
owner       the process that runs a session, as it is asked

Plugins may use the names of this module. They are imported when they are used.
"""

from prsm_core import attach

_HOMES = {
    "cells": "columns_of cut rows_of tail text_width",
    "follow": "AttachableFrontend RunFrontend follow_run start_task",
    "foreground": "is_in_front stdin_descriptor",
    "owner": "SessionOwner",
    "table": "format_table",
    "wording": (
        "VERDICT_LABELS hanging parse_answer parse_verdict problem_lines request_lines subject "
        "what_is_asked"
    ),
    "prsm_core.config.seen": "SeenWarnings",
    "prsm_core.domain.account": "Problem code_of problems_of",
    "prsm_core.engine.journal.views": "build_tree",
    "prsm_core.engine.processes.executor": "run_captured",
    "prsm_core.kit.clocks": "SystemClock",
    "prsm_core.loop.output": "LOST Outlet drained room_in",
    "prsm_core.permissions.edits": "find_change",
}

__getattr__, __dir__, __all__ = attach(__name__, _HOMES)
