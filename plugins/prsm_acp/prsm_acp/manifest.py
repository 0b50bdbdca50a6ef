"""What PRSM has to know of an ACP agent besides the protocol itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path
    from typing import Any

    from prsm_core import McpServer, PermissionMode

SERVER = "prsm"  # the name of the MCP server with PRSM's own tools
DEFAULT_MODEL = "default"  # the agent's own choice
NPM = "npm install -g "


class ModelChoice(StrEnum):
    """How an agent is told its model."""

    ARGUMENT = "argument"  # on its command line
    MODELS = "models"  # by session/set_model, from the `models` of session/new
    OPTIONS = "options"  # by session/set_config_option, from its `configOptions`
    NONE = "none"


class McpPlace(StrEnum):
    """Where an agent finds the MCP server with PRSM's own tools."""

    SESSION = "session"  # in the mcpServers of session/new
    LAUNCH = "launch"  # in what `launch` prepares, or the manifest's settings file
    NONE = "none"  # nowhere: it cannot take part in a tree


class UsageFrom(StrEnum):
    """Where an agent tells the tokens of a turn."""

    TURN = "turn"  # `usage` of the prompt's response, of this turn
    SESSION = "session"  # the same, added up over the session
    QUOTA = "quota"  # `_meta.quota` of the prompt's response
    CHUNKS = "chunks"  # `_meta.usage` of message chunks, of one response each
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirks:
    """How an agent differs from what the protocol lets one expect.

    Attributes:
        noise: Beginnings of message chunks that are not the model's.
        failures: Beginnings of the last message of a failed turn that the agent calls successful.
        thought_noise: What it puts between pieces of a thought.
        named_ids: The id of a tool call begins with the tool's own name and two underscores.
        free_titles: A tool call's title may be text of the model, whatever the tool.
        missing_is_empty: A missing file must be told to it as an empty text.
        always_option: The option that allows all tools of an MCP server for good.
        reusable_after_cancel: A session can go on after a cancelled prompt.
        reusable_after_error: A session can go on after a failed prompt.
        loads: session/load gives back the whole conversation.
        model_ids: A pattern of the model ids that it lists. It takes the group `name`, and only of
            the current model's `login`.
        cuts_calls_s: It cuts off calls of MCP tools after so many seconds, if not None.
    """

    noise: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    thought_noise: str | None = None
    named_ids: bool = False
    free_titles: bool = False
    missing_is_empty: bool = False
    always_option: str | None = None
    reusable_after_cancel: bool = True
    reusable_after_error: bool = False
    loads: bool = False
    model_ids: str | None = None
    cuts_calls_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFile:
    """A file of settings that is written for one agent.

    Attributes:
        variable: The variable that names it.
        arguments: The arguments that name it, with `{path}` for its path.
        content: Returns its content for JSON, given PRSM's own MCP server, if it belongs there, and
            the names of the agent's other servers.
    """

    variable: str | None = None
    arguments: tuple[str, ...] = ()
    content: Callable[[McpServer | None, Collection[str]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One kind of ACP agent.

    Attributes:
        name: Its name in messages and in the configuration (`agent: NAME`).
        command: The program with the arguments that make it speak ACP on stdin and stdout.
        install: How to get it, for a person.
        login: How to log in, for a person.
        passes: Names of variables that it gets from the user's environment.
        variables: Variables that it always gets.
        settings: A file of settings that it gets.
        secret_variable: The variable for a random password of each process.
        key_variable: The variable that takes the API key of `api_key_env`.
        url_variable: The variable that takes `base_url`.
        key_arguments: Arguments that it needs with `api_key_env` or `base_url`.
        home_variable: The variable that names the folder of the vendor's login.
        modes: The agent's own mode for each permission mode; else it keeps its mode.
        model: How it gets its model.
        model_argument: The flag before the model's name, for ModelChoice.ARGUMENT.
        needs_model: It must not choose its model itself.
        mcp: Where it finds PRSM's tools.
        usage: Where it reports its tokens.
        kept_tokens: Returns the tokens of a session so far, given the folder of `home_variable` and
            the session's id, if a cancelled prompt reports none.
        files: It may read and write files through PRSM.
        asks_edits: It was seen to ask for each edit of a file in these modes.
        skills: Folders of skills that its model knows, below the working folder.
        user_skills: … and below the user's home, unless it has another home.
        gaps: What it does without asking, for a person.
        tested: The version that this manifest was tried with, if any.
        quirks: Where it differs.
    """

    name: str
    command: tuple[str, ...]
    install: str = ""
    login: str = ""
    passes: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    settings: SettingsFile | None = None
    secret_variable: str | None = None
    key_variable: str | None = None
    url_variable: str | None = None
    key_arguments: tuple[str, ...] = ()
    home_variable: str = "HOME"
    modes: Mapping[PermissionMode, str] = field(default_factory=dict)
    model: ModelChoice = ModelChoice.OPTIONS
    model_argument: str = "--model"
    needs_model: bool = False
    mcp: McpPlace = McpPlace.SESSION
    usage: UsageFrom = UsageFrom.TURN
    kept_tokens: Callable[[Path, str], Mapping[str, int]] | None = None
    files: bool = True
    asks_edits: bool = False
    skills: frozenset[str] = frozenset()
    user_skills: frozenset[str] = frozenset()
    gaps: tuple[str, ...] = ()
    tested: str | None = None
    quirks: Quirks = Quirks()

    @property
    def tells_tokens(self) -> bool:
        """Whether it was seen to report them."""
        return self.tested is not None and self.usage is not UsageFrom.NONE

    @property
    def package(self) -> str | None:
        """The npm package to install, if it is one."""
        return self.install.removeprefix(NPM) if self.install.startswith(NPM) else None
