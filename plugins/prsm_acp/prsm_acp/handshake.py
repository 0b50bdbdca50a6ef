"""The handshake with an agent: greeting, login, session, mode and model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prsm_acp.errors import AUTH_REQUIRED, AcpClosedError, AcpError
from prsm_acp.manifest import DEFAULT_MODEL, SERVER, ModelChoice
from prsm_core import (
    McpServer,
    ModelInfo,
    ModelNotAvailableError,
    ProviderNotAvailableError,
    __version__,
)
from prsm_core.kit import as_object, as_objects, runnable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_acp.config import AcpConfig
    from prsm_acp.connection import Connection
    from prsm_acp.manifest import Manifest
    from prsm_core import McpEndpoint

PROTOCOL = 1
_START_SECONDS = 60.0
_SESSION_SECONDS = 120.0  # MCP servers start meanwhile
_SETTING_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """What an agent said of itself."""

    loads: bool = False
    takes_urls: bool = False  # MCP servers that are reached by HTTP
    takes_images: bool = False

    @classmethod
    def of(cls, reply: Mapping[str, Any]) -> Greeting:
        """Read the answer to `initialize`."""
        capabilities = as_object(reply.get("agentCapabilities"))
        mcp = as_object(capabilities.get("mcpCapabilities"))
        prompt = as_object(capabilities.get("promptCapabilities"))
        return cls(
            loads=capabilities.get("loadSession") is True,
            takes_urls=mcp.get("http") is True,
            takes_images=prompt.get("image") is True,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A session, and what can be set in it."""

    session_id: str
    mode: str | None = None
    modes: tuple[str, ...] = ()
    models: tuple[ModelInfo, ...] = ()
    model_option: str | None = None  # the configuration option that sets the model

    @classmethod
    def of(cls, session_id: str, reply: Mapping[str, Any], manifest: Manifest) -> Opened:
        """Read the answer to `session/new` or `session/load`."""
        modes = as_object(reply.get("modes"))
        options = as_objects(reply.get("configOptions"))
        option = next((o for o in options if "model" in (o.get("category"), o.get("id"))), None)
        mode = modes.get("currentModeId")
        return cls(
            session_id=session_id,
            mode=mode if isinstance(mode, str) else None,
            modes=tuple(str(m.get("id")) for m in as_objects(modes.get("availableModes"))),
            models=_models(reply, option, manifest.quirks.model_ids),
            model_option=str(option.get("id")) if option else None,
        )


async def greet(connection: Connection, config: AcpConfig, manifest: Manifest) -> Greeting:
    """Introduce PRSM and log in; raise ProviderNotAvailableError if the agent is of no use."""
    hello = {
        "protocolVersion": PROTOCOL,
        "clientCapabilities": {
            "fs": {"readTextFile": manifest.files, "writeTextFile": manifest.files},
            "terminal": False,
        },
        "clientInfo": {"name": "prsm", "title": "PRSM", "version": __version__},
    }
    try:
        reply = await connection.request("initialize", hello, timeout_s=_START_SECONDS)
        if config.auth_method is not None:
            login = {"methodId": config.auth_method}
            await connection.request("authenticate", login, timeout_s=_START_SECONDS)
    except AcpError as error:
        raise _unusable("did not start", error, manifest) from error
    version = reply.get("protocolVersion")
    if version != PROTOCOL:
        raise ProviderNotAvailableError(
            f"{manifest.name} speaks version {version!r} of ACP, not {PROTOCOL}",
            hint="Update the agent, or this plugin.",
        )
    return Greeting.of(reply)


async def new_session(
    connection: Connection, manifest: Manifest, cwd: str, servers: Sequence[Mapping[str, Any]]
) -> Opened:
    """Open a session; raise ProviderNotAvailableError when the agent refuses."""
    params = {"cwd": cwd, "mcpServers": list(servers)}
    try:
        reply = await connection.request("session/new", params, timeout_s=_SESSION_SECONDS)
    except AcpError as error:
        raise _unusable("could not open a session", error, manifest) from error
    session_id = reply.get("sessionId")
    if not isinstance(session_id, str) or not session_id:
        raise ProviderNotAvailableError(
            f"{manifest.name} opened a session without an id", hint="Update the agent."
        )
    return Opened.of(session_id, reply, manifest)


async def load_session(
    connection: Connection,
    manifest: Manifest,
    session_id: str,
    cwd: str,
    servers: Sequence[Mapping[str, Any]],
) -> Opened:
    """Go on with a session; raise ProviderNotAvailableError with the code `resume_failed`."""
    params = {"sessionId": session_id, "cwd": cwd, "mcpServers": list(servers)}
    try:
        reply = await connection.request("session/load", params, timeout_s=_SESSION_SECONDS)
    except AcpError as error:
        raise ProviderNotAvailableError(
            f"{manifest.name} does not know the session any more: {error.message}",
            code="resume_failed",
        ) from error
    return Opened.of(session_id, reply, manifest)


async def set_mode(connection: Connection, manifest: Manifest, opened: Opened, mode: str) -> None:
    """Set the mode, which decides when the agent asks; raise ProviderNotAvailableError."""
    if mode == opened.mode:
        return
    if opened.modes and mode not in opened.modes:
        raise ProviderNotAvailableError(
            f"{manifest.name} has no mode {mode!r}",
            hint=f"its modes: {', '.join(opened.modes)}; set `mode` to one of them",
        )
    params = {"sessionId": opened.session_id, "modeId": mode}
    try:
        await connection.request("session/set_mode", params, timeout_s=_SETTING_SECONDS)
    except AcpError as error:
        raise _unusable(f"refused the mode {mode!r}", error, manifest) from error


async def set_model(connection: Connection, manifest: Manifest, opened: Opened, model: str) -> None:
    """Choose the model; raise ModelNotAvailableError if the agent does not have it."""
    if model == DEFAULT_MODEL or manifest.model is ModelChoice.ARGUMENT:
        return
    params = {"sessionId": opened.session_id}
    if manifest.model is ModelChoice.MODELS:
        method, params = "session/set_model", {**params, "modelId": model}
    elif manifest.model is ModelChoice.OPTIONS and opened.model_option is not None:
        method = "session/set_config_option"
        params = {**params, "configId": opened.model_option, "value": model}
    else:
        raise ModelNotAvailableError(
            f"{manifest.name} lets nobody choose its model",
            hint=f"use the model `{DEFAULT_MODEL}` and choose in the agent's own settings",
        )
    if opened.models and model not in {info.model_id for info in opened.models}:
        raise _no_model(manifest, opened, model, "it does not list it")
    try:
        await connection.request(method, params, timeout_s=_SETTING_SECONDS)
    except AcpClosedError as error:
        raise _unusable("did not start", error, manifest) from error
    except AcpError as error:
        raise _no_model(manifest, opened, model, error.message) from error


def own_server(endpoint: McpEndpoint) -> McpServer:
    """Return the MCP server with PRSM's own tools."""
    program, *arguments = endpoint.argv
    return McpServer(command=program, args=tuple(arguments), env=dict(endpoint.env))


def described(
    servers: Mapping[str, McpServer],
    greeting: Greeting,
    manifest: Manifest,
    environment: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Return MCP servers as session/new takes them, with the variables of the `environment`.

    Not every agent hands on its own. Raises ProviderNotAvailableError for a server by URL if the
    agent takes none.
    """

    def describe(name: str, server: McpServer) -> dict[str, Any]:
        if server.url is None:
            return {
                "name": name,
                "command": server.command,
                "args": list(server.args),
                "env": _pairs({**(environment or {}), **server.env}),
            }
        if not greeting.takes_urls:
            raise ProviderNotAvailableError(
                f"{manifest.name} takes no MCP server by URL, such as {name}",
                hint="give the agent no such server, or one with a command",
            )
        headers = _pairs(server.headers)
        return {"type": "http", "name": name, "url": server.url, "headers": headers}

    return [describe(name, server) for name, server in servers.items()]


def check_names(servers: Mapping[str, McpServer], manifest: Manifest) -> None:
    """Raise ProviderNotAvailableError if a server of the user has the name of PRSM's own."""
    if SERVER in servers:
        raise ProviderNotAvailableError(
            f"{manifest.name}: the MCP server {SERVER!r} is PRSM's own",
            hint="give your server another name",
        )


def _pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _unusable(what: str, error: AcpError, manifest: Manifest) -> ProviderNotAvailableError:
    why = error.why if isinstance(error, AcpClosedError) else error.message
    if error.number == AUTH_REQUIRED:
        how = runnable(manifest.login or "see its documentation")
        hint, code = f"Log in: {how}.", "not_logged_in"
    else:
        hint, code = f"Run `{' '.join(manifest.command)}` by hand to see what it says.", None
    return ProviderNotAvailableError(f"{manifest.name} {what}: {why}", hint=hint, code=code)


def _no_model(manifest: Manifest, opened: Opened, model: str, why: str) -> ModelNotAvailableError:
    listed = ", ".join(info.model_id for info in opened.models)
    hint = f"its models: {listed}" if listed else f"use the model `{DEFAULT_MODEL}`"
    return ModelNotAvailableError(f"{manifest.name} has no model {model!r}: {why}", hint=hint)


def _models(
    reply: Mapping[str, Any], option: Mapping[str, Any] | None, pattern: str | None
) -> tuple[ModelInfo, ...]:
    """Return the models of an account, from `models` or from the option that sets the model."""
    listing = as_object(reply.get("models"))
    listed, current = listing.get("availableModels"), listing.get("currentModelId")
    if listed is None and option is not None:
        groups = [entry.get("options") or [entry] for entry in as_objects(option.get("options"))]
        listed = [choice for group in groups for choice in as_objects(group)]
        current = option.get("currentValue")
    labels = {
        str(entry.get("modelId") or entry.get("value")): _text(entry.get("name"))
        for entry in as_objects(listed)
    }
    if pattern is not None:
        labels = _taken(labels, str(current), re.compile(pattern))
    return tuple(ModelInfo(model_id=name, display_name=label) for name, label in labels.items())


def _taken(
    listed: Mapping[str, str | None], current: str, pattern: re.Pattern[str]
) -> dict[str, str | None]:
    """Return the models of the current login, by the names that the agent takes."""
    login = pattern.fullmatch(current)
    matches = {match: label for id_, label in listed.items() if (match := pattern.fullmatch(id_))}
    return {
        match["name"]: label
        for match, label in matches.items()
        if login is None or match["login"] == login["login"]
    }


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
