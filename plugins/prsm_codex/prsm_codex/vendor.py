"""Another vendor's models: behind Codex, behind Claude Code, or masters and others apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from prsm_codex.command import DEFAULT_MODEL
from prsm_codex.config import KEYS, CodexConfig
from prsm_codex.provider import CodexProvider
from prsm_core import (
    AgentRole,
    ConfigError,
    Provider,
    ProviderCapabilities,
    ProviderServices,
    ProviderStatus,
)
from prsm_core.kit import (
    Key,
    Parser,
    parse_argv,
    parse_choice,
    parse_environment,
    parse_models,
    parse_text,
    parse_url,
    read_section,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from prsm_core import AgentHost, ModelInfo, ProviderSession, SessionRequest

T = TypeVar("T")
Build = Callable[[Mapping[str, Any], ProviderServices], Provider]

_BACKENDS = {name: name for name in ("auto", "codex", "claude")}
_SHARED = ("api_key_env", "env", "models")
_OF_ONE = ("base_url", "command")  # of the one backend, where there is but one
_ENFORCEMENT = ("none", "sandbox", "approval", "pre_tool")
_RESUME = ("none", "rebuild", "native", "call")
_TOLD = ("none", "turn", "step")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """A vendor, under one plan in one region.

    name: Its section of the configuration.
    models: As in the configuration. The first is the default.
    responses_url: The server that speaks Codex's protocol, if there is one.
    messages_url: The server that speaks Claude Code's.
    """

    name: str
    api_key_env: str
    models: Mapping[str, Mapping[str, Any]]
    responses_url: str | None
    messages_url: str


def _parse_mapping(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: a mapping is needed, not {value!r}")
    return value


def _parse_codex(where: str, value: Any) -> Mapping[str, Any]:
    return read_section(where, _parse_mapping(where, value), KEYS)


def vendor_keys() -> dict[str, Parser]:
    """Return the keys that every vendor's section has, besides those for plan and region."""
    return {
        "api_key_env": parse_text,
        "backend": Key(
            parse_choice(*_BACKENDS),
            "What runs agents: codex, claude, or auto: masters on Claude Code, others on Codex.",
        ),
        "base_url": parse_url,
        "claude": Key(_parse_mapping, "Settings of Claude Code alone.", {"type": "object"}),
        "codex": Key(_parse_codex, "Settings of Codex alone.", {"type": "object"}),
        "command": parse_argv,
        "env": parse_environment,
        "models": parse_models,
    }


def take_choice(
    settings: dict[str, Any], key: str, choices: Mapping[str, T], *, default: str, section: str
) -> T:
    """Remove a key from a section; return the choice it names, or raise ConfigError."""
    parse = parse_choice(*choices)
    return choices[parse(f"providers.{section}.{key}", settings.pop(key, None) or default)]


def build_vendor(
    vendor: Vendor, settings: Mapping[str, Any], services: ProviderServices, claude: Build
) -> VendorProvider:
    """Build a vendor's provider from its section, without the keys for plan and region.

    The backend `auto` runs masters on Claude Code, whose interface every vendor offers whole, and
    the others on Codex where the vendor speaks its protocol. `claude` builds that backend. Raises
    ConfigError.
    """
    rest = {key: value for key, value in settings.items() if value is not None}
    rest.pop("profiles", None)  # the engine rotates profiles and hands over one of them
    backend = take_choice(rest, "backend", _BACKENDS, default="auto", section=vendor.name)
    own = {name: _own(vendor, rest, name) for name in ("codex", "claude")}
    shared = {key: rest.pop(key) for key in _SHARED if key in rest}
    if isinstance(named := shared.get("models"), (list, tuple)):
        shared["models"] = {str(name): vendor.models.get(name, {}) for name in named}
    if backend == "auto" and own["codex"]["base_url"] is None:
        backend = "claude"
    if backend != "auto":
        own[backend] |= {key: rest.pop(key) for key in _OF_ONE if key in rest}
    for key in rest:
        raise ConfigError(
            f"providers.{vendor.name}: unknown key {key!r}",
            hint="What concerns one backend only stands under `codex` or `claude`.",
        )
    if backend == "codex" and own["codex"]["base_url"] is None:
        raise ConfigError(
            f"providers.{vendor.name}.backend: Codex cannot talk with the servers of this plan",
            hint="Use `backend: claude`.",
        )
    models = parse_models(f"providers.{vendor.name}.models", shared.get("models", vendor.models))

    def build(name: str) -> Provider:
        if name == "claude":
            return claude({**own[name], **shared}, services)
        lean = {"lean": True, **own[name], **shared}
        return CodexProvider(CodexConfig.from_settings(lean, section=vendor.name), services)

    if backend == "auto":
        masters, others = build("claude"), build("codex")
    else:
        masters = others = build(backend)
    return VendorProvider(masters, others, models, is_preset="models" not in shared)


def _own(vendor: Vendor, rest: dict[str, Any], name: str) -> dict[str, Any]:
    settings = _parse_mapping(f"providers.{vendor.name}.{name}", rest.pop(name, {}))
    url = vendor.responses_url if name == "codex" else vendor.messages_url
    preset = {"api_key_env": vendor.api_key_env, "base_url": url, "models": vendor.models}
    return {**preset, **settings}


class VendorProvider(Provider):
    """Runs masters by one provider, others by another or the same. Promises what both can do."""

    def __init__(
        self,
        masters: Provider,
        others: Provider,
        models: Sequence[ModelInfo],
        *,
        is_preset: bool = False,
    ) -> None:
        self._masters = masters
        self._others = others
        self._models = tuple(models)
        self._is_preset = is_preset
        of_default = [replace(model, model_id=DEFAULT_MODEL) for model in self._models[:1]]
        self.known_models = (*self._models, *of_default)

    @property  # the backends' own change as they learn the program's version
    def capabilities(self) -> ProviderCapabilities:  # type: ignore[override]
        """What both backends can do."""
        one, two = self._masters.capabilities, self._others.capabilities
        return ProviderCapabilities(
            supports_master=one.supports_master,
            enforcement=min(one.enforcement, two.enforcement, key=_ENFORCEMENT.index),
            resume=min(one.resume, two.resume, key=_RESUME.index),
            steer=one.steer and two.steer,
            streams=one.streams and two.streams,
            shell_reads=one.shell_reads or two.shell_reads,
            parameters=one.parameters & two.parameters,
            asks_edits=all(c.asks_edits or c.enforcement == "pre_tool" for c in (one, two)),
            tokens_told=min(one.tokens_told, two.tokens_told, key=_TOLD.index),
            cost_told=min(one.cost_told, two.cost_told, key=_TOLD.index),
            compacts=one.compacts and two.compacts,
            skills=one.skills & two.skills,  # to be told twice is better than not to be told
        )

    @asynccontextmanager
    async def open_session(
        self, request: SessionRequest, host: AgentHost
    ) -> AsyncIterator[ProviderSession]:
        """Open an agent's session by the backend of its role; see Provider."""
        backend = self._masters if request.role is AgentRole.MASTER else self._others
        if request.model == DEFAULT_MODEL and self._models:
            request = replace(request, model=self._models[0].model_id)
        async with backend.open_session(request, host) as session:
            yield session

    async def prepare(self) -> None:
        """Have the backend of masters begin; see Provider."""
        await self._masters.prepare()

    async def probe(self) -> ProviderStatus:
        """Look whether all of its backends can be used; see Provider."""
        one = await self._masters.probe()
        if self._others is self._masters or not one.available:
            return one
        two = await self._others.probe()
        if not two.available:
            return two
        return replace(
            one,
            version=f"{one.version or 'unknown'}, {two.version or 'unknown'}",
            tested=f"{one.tested or 'any'}, {two.tested or 'any'}",
            reason=one.reason or two.reason,
            hint=one.hint or two.hint,
            gaps=tuple(dict.fromkeys((*one.gaps, *two.gaps))),
        )

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the preset or configured models. No vendor lists them to these programs."""
        return self._models

    async def knows_model(self, model: str) -> bool:
        """Return whether a model may be the vendor's. Only configured models rule it out."""
        return self._is_preset

    async def aclose(self) -> None:
        """Close the backends; see Provider."""
        try:
            await self._masters.aclose()
        finally:
            if self._others is not self._masters:
                await self._others.aclose()
