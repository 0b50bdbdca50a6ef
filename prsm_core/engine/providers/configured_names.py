"""The names of providers and models that the settings hold: which there are, and which are none.

A run is refused with the one that it begins with. The others come into use later or never, and
some only restrict, so what is wrong with them is told before the first turn.
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
    """The name of a model that the settings hold, or of a provider.

    `base` is the provider that has the model if the name says none; None: a provider is named.
    """

    path: KeyPath
    text: str
    base: str | None = None


class NameFinding(Record, frozen=True, kw_only=True):
    """What is to be told of a name: that it is none, or that nobody can say so.

    `place` is its path for people, after file and line; `hint` has the nearest names where it is
    wrong, and is None where that is not known.
    """

    path: KeyPath
    place: str
    message: str
    hint: str | None = None

    @property
    def is_wrong(self) -> bool:
        """Whether it is surely the name of nothing."""
        return self.hint is not None

    def __str__(self) -> str:
        """Tell it in a line."""
        return "; ".join(filter(None, (f"{self.place}: {self.message}", self.hint)))


def set_names(names: ModelNames, base: str | None, default: str | None) -> Iterator[SetName]:
    """Yield every name of a provider or a model that the settings hold.

    `base` is the provider whose models are named without it, None leaves those out; `default` is
    the same for the model of a run that names none. With a wrong section of `providers` the
    configuration itself is refused.
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
    """Ask providers for their models, where it is not known whether they have those of the names.

    `only` are the providers that may be asked; None for all.
    """
    texts: dict[str, list[str]] = {}
    for name in found:
        if name.base is not None:
            texts.setdefault(name.base, []).append(name.text)
    await asyncio.gather(*(listings.check(given, base, only) for base, given in texts.items()))


def place_of_name(settings: Settings, path: KeyPath) -> str:
    """Return a key path after the file and line where it stands."""
    where = settings.place_of(path)
    return f"{where}: {dotted(path)}" if where else dotted(path)


def judge_names(found: Iterable[SetName], listings: Listings) -> list[NameFinding]:
    """Return what is to be told of names, by all that is known of models now."""
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
    """Return wrong names of the settings, and those to ask providers about; ask nobody."""
    default = listings.names.settings.defaults.provider
    found = list(set_names(listings.names, base, default))
    await ask_for(found, listings, only=())
    findings = judge_names(found, listings)
    doubtful = {finding.path for finding in findings if not finding.is_wrong}
    wrong = [finding for finding in findings if finding.is_wrong]
    return wrong, [name for name in found if name.path in doubtful]


def told_of_names(findings: Sequence[NameFinding]) -> Iterator[Notice]:
    """Yield what a run tells of the names in its settings."""
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
