"""What packages make commands of `prsm` with; plugins may use these names.

A command is an entry point of the group `prsm.commands`. Its context object is a `Launch`, which
says what stood before the command. Its module imports only these names and click: the rest is
imported when it runs, so that its own --help stays cheap.
"""

from prsm_core import attach

_HOMES = {
    "prsm_core.cli.callers": "agents_may agents_may_unless",
    "prsm_core.cli.judging": "PolicyDesk edit_rule",
    "prsm_core.cli.launch": "Launch",
    "prsm_core.cli.leading": "lead",
    "prsm_core.cli.ledger": "open_ledger open_session write_ledger",
    "prsm_core.cli.options": (
        "follow_option is_utf8 json_option last_option text_argument workspace_option"
    ),
    "prsm_core.cli.places": "workspace_paths",
    "prsm_core.cli.run_options": "lead_options without_plugin_option",
    "prsm_core.cli.scratch": "ScratchRun run_scratch",
    "prsm_core.cli.saying": "print_table say",
    "prsm_core.engine.control.client": "open_control",
    "prsm_core.engine.control.remote": "held require_quiet",
    "prsm_core.engine.control.session_lock": "SessionLock find_owner",
    "prsm_core.engine.processes.launcher": "install_child_watcher",
    "prsm_core.loop.run": "run_to_end",
}

__getattr__, __dir__, __all__ = attach(__name__, _HOMES)
