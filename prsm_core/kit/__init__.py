"""What providers and frontends are made with: everything is importable from here.

Importing loads nothing (PEP 562). The rest of the core uses some of it, too.

section       a provider's settings, read and checked; section_model is their pydantic model
version       which version of a program is there, and whether it is known to work
known_version … kept until the program changes         npm  … told by its package
programs      a program as a person can type it
starting      what keeps a program from beginning its work
reading       what a program writes: any of it may be missing or odd
images        what a prompt shows, for a vendor
homes         a private home, with the user's login linked in
keys          which key a program is given
places        where PRSM's own files lie
turns         events of a turn for who reads them, and a session that runs turns
terminal      what a program says, made harmless       endings  how it ended, in words
text          what agents write, made harmless; times, for people
pauses        how long a vendor's message asks to wait
stdio         a protocol on stdin and stdout, to which nothing else gets
deadlines     waiting by the engine's clock
hook_gate     where the hooks of a vendor's program ask; hook_client is what they run
streams       one agent's stream, and a run's, for programs  stream_events  … what is told of it
results       how agents have ended, for programs
filenames     what a name says of a file; how a file system compares names, for the rooms above
git_settings  what git is told in each shell
local_socket  sockets in private folders, and who is at their other end
quotation     what others have said, as text that cannot be taken for the system's

Of no name here, for the rooms above:

background    the tasks of an engine      clocks    the system's clock
exhaustion    what a machine has run out of
environment   which variables reach what agents run
regular       files that a person names, and nothing that waits or acts
sanitize      what can be kept            outcomes  answers to calls
stream_fold   what an event says of an agent's stream
arguments     what the doors of an application take   temporary  folders that are gone after use
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost more than everything else here

if TYPE_CHECKING:
    from prsm_core.kit.deadlines import deadline
    from prsm_core.kit.endings import Ending, ended_how, wait_for_exit, was_killed
    from prsm_core.kit.filenames import names_file
    from prsm_core.kit.git_settings import GIT_SETTINGS
    from prsm_core.kit.homes import link_login, make_private, write_private
    from prsm_core.kit.hook_gate import HOOK_COMMAND, HookAsker, HookGate
    from prsm_core.kit.images import SeenImages, read_base64, read_urls
    from prsm_core.kit.keys import find_key, require_key
    from prsm_core.kit.pauses import read_pause
    from prsm_core.kit.places import state_folder
    from prsm_core.kit.programs import runnable
    from prsm_core.kit.quotation import quote_conversation
    from prsm_core.kit.reading import as_object, as_objects, read_object, token_count
    from prsm_core.kit.results import wait_for_multiple, wait_for_result
    from prsm_core.kit.section import (
        Key,
        Parser,
        parse_argv,
        parse_choice,
        parse_environment,
        parse_flag,
        parse_models,
        parse_text,
        parse_url,
        parse_words,
        read_section,
    )
    from prsm_core.kit.section_model import model_of_keys
    from prsm_core.kit.starting import proxy_missing, require_folder
    from prsm_core.kit.stdio import Wire, open_wire, take_stdio
    from prsm_core.kit.stream_events import (
        AgentPhase,
        Reasoning,
        StreamEnd,
        StreamError,
        StreamEvent,
        StreamStart,
        Token,
        ToolStatus,
    )
    from prsm_core.kit.streams import (
        AgentStream,
        Execution,
        StreamCallbacks,
        open_execution,
        open_stream,
    )
    from prsm_core.kit.terminal import one_line, readable_tail
    from prsm_core.kit.text import (
        call_text,
        command_lines,
        escape_command,
        escape_exact,
        escape_prose,
        first_line,
        format_duration,
    )
    from prsm_core.kit.turns import Turn, TurnSession
    from prsm_core.kit.version import VersionRange, numbers_of, printed_version, version_in

__all__ = [  # noqa: RUF022 - in the order of sorted(), as dir() lists them
    "AgentPhase",
    "AgentStream",
    "Ending",
    "Execution",
    "GIT_SETTINGS",
    "HOOK_COMMAND",
    "HookAsker",
    "HookGate",
    "Key",
    "Parser",
    "Reasoning",
    "SeenImages",
    "StreamCallbacks",
    "StreamEnd",
    "StreamError",
    "StreamEvent",
    "StreamStart",
    "Token",
    "ToolStatus",
    "Turn",
    "TurnSession",
    "VersionRange",
    "Wire",
    "as_object",
    "as_objects",
    "call_text",
    "command_lines",
    "deadline",
    "ended_how",
    "escape_command",
    "escape_exact",
    "escape_prose",
    "find_key",
    "first_line",
    "format_duration",
    "link_login",
    "make_private",
    "model_of_keys",
    "names_file",
    "numbers_of",
    "one_line",
    "open_execution",
    "open_stream",
    "open_wire",
    "parse_argv",
    "parse_choice",
    "parse_environment",
    "parse_flag",
    "parse_models",
    "parse_text",
    "parse_url",
    "parse_words",
    "printed_version",
    "proxy_missing",
    "quote_conversation",
    "read_base64",
    "read_object",
    "read_pause",
    "read_section",
    "read_urls",
    "readable_tail",
    "require_folder",
    "require_key",
    "runnable",
    "state_folder",
    "take_stdio",
    "token_count",
    "version_in",
    "wait_for_exit",
    "wait_for_multiple",
    "wait_for_result",
    "was_killed",
    "write_private",
]

_HOMES = {
    "prsm_core.kit.deadlines": ("deadline",),
    "prsm_core.kit.filenames": ("names_file",),
    "prsm_core.kit.git_settings": ("GIT_SETTINGS",),
    "prsm_core.kit.hook_gate": ("HOOK_COMMAND", "HookAsker", "HookGate"),
    "prsm_core.kit.pauses": ("read_pause",),
    "prsm_core.kit.places": ("state_folder",),
    "prsm_core.kit.programs": ("runnable",),
    "prsm_core.kit.quotation": ("quote_conversation",),
    "prsm_core.kit.results": ("wait_for_multiple", "wait_for_result"),
    "prsm_core.kit.section": (
        "Key",
        "Parser",
        "parse_argv",
        "parse_choice",
        "parse_environment",
        "parse_flag",
        "parse_models",
        "parse_text",
        "parse_url",
        "parse_words",
        "read_section",
    ),
    "prsm_core.kit.section_model": ("model_of_keys",),
    "prsm_core.kit.starting": ("proxy_missing", "require_folder"),
    "prsm_core.kit.endings": ("Ending", "ended_how", "wait_for_exit", "was_killed"),
    "prsm_core.kit.reading": ("as_object", "as_objects", "read_object", "token_count"),
    "prsm_core.kit.stdio": ("Wire", "open_wire", "take_stdio"),
    "prsm_core.kit.stream_events": (
        *("AgentPhase", "Reasoning", "StreamEnd", "StreamError", "StreamEvent", "StreamStart"),
        *("Token", "ToolStatus"),
    ),
    "prsm_core.kit.streams": (
        *("AgentStream", "Execution", "StreamCallbacks", "open_execution", "open_stream"),
    ),
    "prsm_core.kit.terminal": ("one_line", "readable_tail"),
    "prsm_core.kit.text": (
        "call_text",
        "command_lines",
        "escape_command",
        "escape_exact",
        "escape_prose",
        "first_line",
        "format_duration",
    ),
    "prsm_core.kit.turns": ("Turn", "TurnSession"),
    "prsm_core.kit.homes": ("link_login", "make_private", "write_private"),
    "prsm_core.kit.images": ("SeenImages", "read_base64", "read_urls"),
    "prsm_core.kit.keys": ("find_key", "require_key"),
    "prsm_core.kit.version": ("VersionRange", "numbers_of", "printed_version", "version_in"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # else a type checker would believe in every misspelt name

    def __getattr__(name: str) -> object:
        module = _HOME_OF.get(name)
        if module is None:
            raise AttributeError(f"module 'prsm_core.kit' has no attribute {name!r}")
        import importlib

        value = getattr(importlib.import_module(module), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
