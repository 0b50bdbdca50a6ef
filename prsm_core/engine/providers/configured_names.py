"""Check the names of providers and models in the settings.

A wrong name that a run begins with refuses the run. The others are used later or never, and some
only restrict, so they are reported before the first turn.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from prsm_core.config.layers import dotted
from prsm_core.domain.record import Record
from prsm_core.domain.turns import Notice
from prsm_core.errors import ModelNotAvailableError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from prsm_core.config import Settings
    from prsm_core.config.document import KeyPath
    from prsm_core.engine.providers.listings import Listings
    from prsm_core.engine.providers.model_names import ModelNames

DEFAULT_PROVIDER = ("defaults", "provider")
_OF_A_RUN = (("defaults", "model"), ("defaults", "master_model"))
SHOWN = 5  # lines about wrong names at the start of a run


class SetName(Record, frozen=True, kw_only=True):
    """The name of a provider in the settings, or of a model; `base` has it unless the name says."""

    path: KeyPath
    text: str
    base: str | None = None


class NameFinding(Record, frozen=True, kw_only=True):
    """A finding about a name: it is wrong, or nobody can tell.

    `place` is its path for people, after file and line; `hint` has the nearest names of a wrong
    one.
    """

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
