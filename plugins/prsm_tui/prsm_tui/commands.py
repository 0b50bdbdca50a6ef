"""What may be typed behind a slash: only what works is here."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Command(NamedTuple):
    """A command: how it is typed, and what it does."""

    usage: str
    does: str


class Typed(NamedTuple):
    """A command as it was typed: its name, and all behind it."""

    name: str
    rest: str


COMMANDS: Mapping[str, Command] = {
    "help": Command("/help", "the keys of this place, and these commands"),
    "open": Command("/open AGENT", "the transcript of an agent; `session`: what is no agent's"),
    "kill": Command("/kill [AGENT]", "end an agent and all below it; asks"),
    "restart": Command("/restart TEXT", "start the chosen agent, which has ended, again"),
    "stop": Command("/stop", "end the open run as interrupted; asks"),
    "budget": Command("/budget", "what the newest run has used, agent by agent, and what is left"),
    "model": Command("/model [NAME]", "the chosen agent goes on with that model"),
    "models": Command("/models", "the models that are known"),
    "providers": Command("/providers", "which providers can be used, and why others cannot"),
    "policy": Command("/policy", "the rules on commands and tools, and what was granted always"),
    "settings": Command("/settings", "what runs of this session have, and where that is changed"),
    "mode": Command("/mode MODE", "the mode of runs that begin from now on"),
    "fork": Command("/fork", "another session that begins as this one is now"),
    "sessions": Command("/sessions", "the list of sessions; what runs goes on"),
    "new": Command("/new [FOLDER]", "another session, in this folder if none is given"),
    "resume": Command("/resume", "go on with the run, which was cut off"),
    "rename": Command("/rename NAME", "what the session is called; nothing: by its task"),
    "export": Command("/export [FILE]", "write the session to a file: .json, .jsonl or .html"),
    "attach": Command("/attach [FILE]", "an image that goes with what you say next; nothing: none"),
    "changes": Command("/changes", "what was changed: its lines, accept, reject, comment"),
    "snapshot": Command("/snapshot [TEXT]", "the snapshots of the files; with a text a new one"),
    "quit": Command("/quit", "leave"),
}


def read_command(text: str) -> Typed | None:
    """Return the command that a text is, None where it is none."""
    said = text.strip()
    if not said.startswith("/") or "\n" in said.split(" ", 1)[0]:
        return None
    name, _, rest = said[1:].partition(" ")
    return None if "/" in name else Typed(name.lower(), rest.strip())


def unknown(name: str, known: Mapping[str, Command] = COMMANDS) -> str:
    """Return what to say of a command that is none of those that are known."""
    near = get_close_matches(name, known, n=2, cutoff=0.75)  # two may be as near: mode, model
    near = near or get_close_matches(name, known, n=1, cutoff=0.5)
    meant = f"did you mean /{' or /'.join(near)}?" if near else f"there are /{', /'.join(known)}"
    return f"there is no command /{name}: {meant}"


def completed(word: str) -> Sequence[str]:
    """Return the commands that begin so."""
    return [f"/{name}" for name in COMMANDS if f"/{name}".startswith(word)]
