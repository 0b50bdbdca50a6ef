"""The models that providers list, and the names of models and providers in the settings.

Each list is asked for once and kept for the next run. A name in a kept list is taken; only a fresh
list can say that a provider has no such model. A provider that lists nothing, or not in time, takes
every name. A survey asks all providers at once which can be used.

A wrong name that a run begins with refuses the run. The others are used later or never, and some
only restrict, so they are reported before the first turn.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from prsm_core.config.layers import dotted
from prsm_core.domain.models import ModelInfo  # noqa: TC001 - a file is read by it
from prsm_core.domain.record import Record
from prsm_core.domain.turns import Notice
from prsm_core.engine.providers.model_names import Listing, ModelNames
from prsm_core.errors import ModelNotAvailableError, PrsmError
from prsm_core.interfaces.provider import ProviderCapabilities, ProviderStatus
from prsm_core.kit.clocks import SystemClock
from prsm_core.plugins.guard import Guest, TooLateError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from prsm_core.config import Settings
    from prsm_core.config.document import KeyPath
    from prsm_core.engine.providers.registry import ProviderRegistry
    from prsm_core.interfaces.clock import Clock


_log = logging.getLogger("prsm.engine")
_told = logging.getLogger("prsm.told")  # what people are to know, though nothing is wrong

SOON_SECONDS = 0.7  # what is waited for longer is told
DISCOVERY_SECONDS = 20.0  # some vendors start their whole program to list models


class ProviderReport(Record, frozen=True, kw_only=True):
    """What is known of one provider; without capabilities if it could not be built."""

    status: ProviderStatus
    capabilities: ProviderCapabilities | None = None
    models: tuple[ModelInfo, ...] = ()
    models_problem: str | None = None  # why the models could not be listed


async def survey(
    registry: ProviderRegistry,
    names: Iterable[str],
    *,
    with_models: bool = False,
    seconds: float = DISCOVERY_SECONDS,
    redact: Callable[[str], str] = str,
) -> dict[str, ProviderReport]:
    """Look at providers at once; failures, and models if asked for, are part of the reports."""
    wanted = list(names)
    patience = seconds if with_models else None
    reports = await asyncio.gather(*(_look(registry, name, patience) for name in wanted))
    clean = [_without_secrets(report, redact) for report in reports]
    return dict(zip(wanted, clean, strict=True))


def _without_secrets(report: ProviderReport, redact: Callable[[str], str]) -> ProviderReport:
    status, problem = report.status, report.models_problem
    reason, hint = status.reason and redact(status.reason), status.hint and redact(status.hint)
    problem = problem and redact(problem)
    return replace(report, status=replace(status, reason=reason, hint=hint), models_problem=problem)


async def _look(registry: ProviderRegistry, name: str, patience: float | None) -> ProviderReport:
    try:
        status = await registry.probe(name)
    except PrsmError as error:
        status = ProviderStatus(available=False, reason=error.message, hint=error.hint)
        return ProviderReport(status=status)
    capabilities = registry.capabilities(name)
    if patience is None or not status.available:
        return ProviderReport(status=status, capabilities=capabilities)
    models, problem = await ask_models(registry, name, patience, SystemClock())
    return ProviderReport(
        status=status, capabilities=capabilities, models=models, models_problem=problem
    )


async def ask_models(
    registry: ProviderRegistry, name: str, seconds: float, clock: Clock
) -> tuple[tuple[ModelInfo, ...], str | None]:
    """Return the models that a provider lists, or why it lists none within `seconds`."""
    try:
        provider = await registry.get(name)
        guest, call = Guest("provider", name), provider.list_models
        with _announced(f"{name}'s list of models", seconds, clock):
            listed = await guest.within(
                seconds, "list_models", call, clock=clock, passes=(PrsmError,)
            )
        return tuple(listed), None
    except TooLateError:
        return (), f"no answer within {seconds:g} s"
    except PrsmError as error:
        return (), error.message


async def ask_whether_known(
    registry: ProviderRegistry, name: str, model: str, seconds: float, clock: Clock
) -> bool:
    """Return whether a provider takes an unlisted model; True if it cannot say."""
    try:
        provider = await registry.get(name)
        guest, call = Guest("provider", name), partial(provider.knows_model, model)
        with _announced(f"{name} to say whether it has model {model!r}", seconds, clock):
            return await guest.within(
                seconds, "knows_model", call, clock=clock, passes=(PrsmError,)
            )
    except PrsmError as error:  # the vendor may still take the model
        _log.warning("provider %s cannot say whether it knows a model: %s", name, error)
        return True


@contextmanager
def _announced(what: str, seconds: float, clock: Clock) -> Iterator[None]:
    text = f"waiting for {what} (up to {seconds:g} s)"
    soon = clock.call_later(SOON_SECONDS, lambda: _told.info(text))
    try:
        yield
    finally:
        soon.cancel()


KEPT_SECONDS = 24 * 3600.0  # accounts get and lose models
_LARGEST = 4_000_000  # bytes of a file that is read
_WRONG = (OSError, msgspec.MsgspecError, ValueError, RecursionError)


class _Kept(Record, frozen=True, kw_only=True):
    settings: str
    at: float
    models: tuple[ModelInfo, ...]
    others: frozenset[str]


class Listings:
    """Owns what providers have listed under their present settings; `path` keeps it for a day."""

    def __init__(
        self, registry: ProviderRegistry, settings: Settings, clock: Clock, path: Path
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._clock = clock
        self._path = path
        self._heard: dict[str, Listing] = {}
        self._asked: set[str] = set()
        self._problems: dict[str, str] = {}  # why a provider that was asked lists nothing
        self._turns: dict[str, asyncio.Lock] = {}
        self._is_read = False
        self.names = ModelNames(
            settings=settings, providers=registry.names, listed=self._heard, absent=registry.absent
        )  # with all that is heard meanwhile

    async def check(
        self, texts: Iterable[str | None], base: str, only: Collection[str] | None = None
    ) -> None:
        """Ask the providers of these names for unknown models; `base` has the bare ones."""
        sought = {self.names.sought(text, base) for text in texts if text is not None}
        if not sought:  # nearly always
            return
        unknown = {pair for pair in sought if pair is not None and not self.names.is_taken(*pair)}
        if only is not None:
            self._read()
            unknown = {pair for pair in unknown if pair[0] in only}
        await asyncio.gather(*(self._seek(*pair) for pair in sorted(unknown)))

    def why_unknown(self, provider: str) -> str:
        """Return why a provider's models are unknown."""
        if provider in self._asked:
            return self._problems.get(provider, "it lists none")
        return "it has not answered yet" if provider in self._turns else "it cannot be used now"

    async def listing(self, providers: Collection[str], seconds: float) -> Mapping[str, Listing]:
        """Return what providers list, without those that list nothing within `seconds`."""
        self._read()
        new = [name for name in sorted(providers) if name not in self._heard]
        await asyncio.gather(*(self._ask(name, seconds) for name in new))
        return {name: self._heard[name] for name in providers if name in self._heard}

    async def _seek(self, provider: str, model: str) -> None:
        self._read()
        if provider not in self._registry.names or self.names.is_taken(provider, model):
            return
        await self._ask(provider, DISCOVERY_SECONDS)
        listing = self._heard.get(provider)
        if listing is None or listing.has(model):
            return
        clock, seconds = self._clock, DISCOVERY_SECONDS
        if await ask_whether_known(self._registry, provider, model, seconds, clock):
            listing = self._heard[provider]  # which may have grown meanwhile
            self._heard[provider] = replace(listing, others=listing.others | {model})
            self._keep(provider, self._heard[provider])

    async def _ask(self, provider: str, seconds: float) -> None:
        async with self._turns.setdefault(provider, asyncio.Lock()):
            if provider in self._asked:
                return
            models, problem = await ask_models(self._registry, provider, seconds, self._clock)
            self._asked.add(provider)
            if problem is not None:
                self._problems[provider] = problem
                _log.warning("provider %s lists no models: %s", provider, problem)
            if models:
                self._heard[provider] = Listing(models=models)
                self._keep(provider, self._heard[provider])
            elif problem is None:
                self._heard.pop(provider, None)  # it has none to list any more

    def _read(self) -> None:
        """Take what earlier runs have kept, once, without torn or wrong entries."""
        if self._is_read:
            return
        self._is_read = True
        now = self._clock.time()
        for provider, entry in self._load().items():
            if provider in self._heard or provider not in self._registry.names:
                continue
            with suppress(*_WRONG):
                kept = msgspec.json.decode(entry, type=_Kept)
                if kept.settings == self._digest(provider) and 0 <= now - kept.at <= KEPT_SECONDS:
                    self._heard[provider] = Listing(
                        models=kept.models, others=kept.others, is_fresh=False
                    )

    def _keep(self, provider: str, listing: Listing) -> None:
        from prsm_core.kit.regular import replace_file

        kept = _Kept(
            settings=self._digest(provider),
            at=self._clock.time(),
            models=listing.models,
            others=listing.others,
        )
        with suppress(OSError):
            replace_file(self._path, msgspec.json.encode({**self._load(), provider: kept}))

    def _digest(self, provider: str) -> str:
        section = self._settings.provider_settings(provider)
        section.pop("env", None)  # it may hold what is nobody's
        plain = msgspec.json.encode(section, enc_hook=str, order="sorted")
        return hashlib.sha256(plain).hexdigest()

    def _load(self) -> dict[str, msgspec.Raw]:
        with suppress(*_WRONG), self._path.open("rb") as file:
            return msgspec.json.decode(file.read(_LARGEST), type=dict[str, msgspec.Raw])
        return {}


DEFAULT_PROVIDER = ("defaults", "provider")
_OF_A_RUN = (("defaults", "model"), ("defaults", "master_model"))
SHOWN = 5  # lines about wrong names at the start of a run


class SetName(Record, frozen=True, kw_only=True):
    """The name of a provider in the settings, or of a model; `base` has it unless the name says."""

    path: KeyPath
    text: str
    base: str | None = None


class NameFinding(Record, frozen=True, kw_only=True):
    """A finding about a name at a `place`: a wrong one has a `hint`, an unknown one has none."""

    path: KeyPath
    place: str
    message: str
    hint: str | None = None

    @property
    def is_wrong(self) -> bool:
        """Whether it is certainly the name of nothing."""
        return self.hint is not None

    def __str__(self) -> str:
        return "; ".join(filter(None, (f"{self.place}: {self.message}", self.hint)))


def set_names(names: ModelNames, base: str | None, default: str | None) -> Iterator[SetName]:
    """Yield every name of a provider or model in the settings.

    `base` is the provider of models named without one (None leaves those out), `default` that of
    the model of a run that names none. A wrong section of `providers` is refused as configuration.
    """
    for path, text in _providers(names.settings):
        yield SetName(path=path, text=text)
    for path, text in _models(names.settings):
        of = default if path in _OF_A_RUN else base
        if of is not None or names.provider_of(text) is not None:
            yield SetName(path=path, text=text, base=of or "")


def _providers(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    yield from _set(settings, DEFAULT_PROVIDER)
    for model, known in settings.model_registry.items():
        if known.provider is not None:
            yield ("model_registry", model, "provider"), known.provider


def _models(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    yield from _set(settings, *_OF_A_RUN, ("defaults", "peer_model"))
    for key in ("peer_models", "fallbacks"):
        for index, text in enumerate(getattr(settings.defaults, key)):
            yield ("defaults", key, index), text
    yield from _set(settings, ("context", "summary_model"), ("sessions", "name_model"))
    for name, expert in settings.experts.items():
        if expert.model is not None:
            yield ("experts", name, "model"), expert.model
    for alias in settings.models:
        yield ("models", alias), alias


def _set(settings: Settings, *paths: tuple[str, str]) -> Iterator[tuple[KeyPath, str]]:
    for section, key in paths:
        if (text := getattr(getattr(settings, section), key)) is not None:
            yield (section, key), text


async def ask_for(
    found: Iterable[SetName], listings: Listings, *, only: Collection[str] | None = None
) -> None:
    """Ask providers, or `only` some, for their models if it is unknown what they have."""
    texts: dict[str, list[str]] = {}
    for name in found:
        if name.base is not None:
            texts.setdefault(name.base, []).append(name.text)
    await asyncio.gather(*(listings.check(given, base, only) for base, given in texts.items()))


def place_of_name(settings: Settings, path: KeyPath) -> str:
    """Return a key path after its file and line."""
    where = settings.place_of(path)
    return f"{where}: {dotted(path)}" if where else dotted(path)


def judge_names(found: Iterable[SetName], listings: Listings) -> list[NameFinding]:
    """Return findings on names, by what is known of models now."""
    return [finding for name in found if (finding := _judged(name, listings)) is not None]


def _judged(name: SetName, listings: Listings) -> NameFinding | None:
    names = listings.names
    place = place_of_name(names.settings, name.path)
    try:
        if name.base is None:
            names.check_provider(name.text)
            return None
        provider, model = names.place(name.text, name.base)
    except ModelNotAvailableError as error:
        return NameFinding(
            path=name.path, place=place, message=error.message, hint=error.hint or ""
        )
    if names.is_taken(provider, model):
        return None
    why = listings.why_unknown(provider)
    text = f"whether provider {provider} has a model {model!r} is not known: {why}"
    return NameFinding(path=name.path, place=place, message=text)


async def look_at_names(listings: Listings, base: str) -> tuple[list[NameFinding], list[SetName]]:
    """Return wrong names, and those to ask providers about; ask nobody."""
    default = listings.names.settings.defaults.provider
    found = list(set_names(listings.names, base, default))
    await ask_for(found, listings, only=())
    findings = judge_names(found, listings)
    doubtful = {finding.path for finding in findings if not finding.is_wrong}
    wrong = [finding for finding in findings if finding.is_wrong]
    return wrong, [name for name in found if name.path in doubtful]


def told_of_names(findings: Sequence[NameFinding]) -> Iterator[Notice]:
    """Yield a run's notices on the names in its settings."""
    wrong = [finding for finding in findings if finding.is_wrong]
    unknown = [finding for finding in findings if not finding.is_wrong]
    for finding in wrong[:SHOWN]:
        yield Notice("warning", str(finding))
    if len(wrong) > SHOWN:
        more = len(wrong) - SHOWN
        text = f"{more} more names in the settings are none: `prsm doctor` tells them"
        yield Notice("warning", text)
    if unknown:
        rest = f"; and {len(unknown) - 1} more: `prsm doctor` tells them" if unknown[1:] else ""
        yield Notice("info", f"{unknown[0]}{rest}", once=True)
