"""What providers and frontends are made with: everything is importable from here.

Importing loads nothing (PEP 562). The rest of the core uses some of it, too.

section       a provider's settings, read and checked; section_model is their struct
version       which version of a program is there, and whether it is known to work
programs      a program as a person can type it, and what keeps it from beginning its work
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
hook_gate     where the hooks of a vendor's program ask; hook_client is what they run
filenames     what a name says of a file; how a file system compares names, for the rooms above
local_socket  sockets in private folders, and who is at their other end
quotation     what others have said, as text that cannot be taken for the system's
background    tasks that fail alone       clocks    deadlines and waits by a clock

Of no name here, for the rooms above:

exhaustion    what a machine has run out of
environment   which variables reach what agents run
sanitize      what can be kept
regular       files that a person names, and nothing that waits or acts
arguments     what the doors of an application take   temporary  folders that are gone after use
outcomes      answers to calls that are too long for models
"""

from prsm_core import attach

_HOMES = {
    "background": "Background",
    "clocks": "deadline first_of",
    "endings": "Ending Exit",
    "filenames": "names_file",
    "homes": "link_login make_private write_private",
    "hook_gate": "HookGate",
    "images": "SeenImages read_base64 read_urls",
    "keys": "find_key require_key",
    "local_socket": "listen_private shown_to_clients",
    "pauses": "read_pause",
    "places": "state_folder",
    "programs": "proxy_missing require_folder runnable",
    "quotation": "quote quote_conversation quote_word unquote",
    "reading": "as_object as_objects read_object token_count whole_number",
    "section": (
        "Key Parser parse_argv parse_choice parse_environment parse_flag parse_models parse_text "
        "parse_url parse_words read_section"
    ),
    "section_model": "model_of_keys",
    "stdio": "Wire take_stdio",
    "terminal": "one_line readable_tail",
    "text": (
        "call_text command_lines escape_command escape_exact escape_prose first_line "
        "format_duration"
    ),
    "turns": "Turn TurnSession",
    "version": "VersionRange",
}

__getattr__, __dir__, __all__ = attach(__name__, _HOMES)
