"""The names of models: an alias, a provider, provider/model, or a provider's own name.

A provider's own name belongs to the provider at hand, else to the one in the registry. Names are
looked up in that order and nothing is guessed: others are refused with the nearest names, unless
their provider cannot say which models it has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import field
from msgspec.structs import replace

from prsm_core.catalog.packages import OWN_PROVIDERS
from prsm_core.domain.record import Record
from prsm_core.errors import ModelNotAvailableError
from prsm_core.plugins.absent import PRESENT, Absent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prsm_core.config import Settings
    from prsm_core.domain.models import ModelInfo

DEFAULT_MODEL = "default"  # whichever the vendor's program takes by itself
UNKNOWN = "unknown_model"  # the code of the error about a name of no model
ANY_MODEL = "one that is not listed is taken where model_registry.<id>.provider names its provider"
SHOWN = 3  # so many of the nearest names are told
_SLIP = 0.8  # how alike a word must be to a known name, 0 to 1, to be a slip of the pen


class Listing(Record, frozen=True, kw_only=True):
    """The models a provider has listed, and other names it takes; a fresh one has no others."""

    models: tuple[ModelInfo, ...]
    others: frozenset[str] = frozenset()
    is_fresh: bool = True

    def has(self, name: str) -> bool:
        """Return whether the provider takes a name."""
        return name in self.others or any(model.is_called(name) for model in self.models)

    @property
    def visible(self) -> Iterator[ModelInfo]:
        """The models meant for everybody."""
        return (model for model in self.models if not model.hidden)


Listed = Mapping[str, Listing]  # by provider; one that has listed nothing is not in it


class _Wrong(Record, frozen=True):
    message: str
    like: str
    hint: str | None = None
    code: str = UNKNOWN


class ModelNames(Record, frozen=True, kw_only=True):
    """All known names: those in the settings, and what installed providers have listed."""

    settings: Settings
    providers: Collection[str]
    listed: Listed = field(default_factory=dict)
    absent: Absent = PRESENT

    def place(self, text: str, base: str) -> tuple[str, str]:
        """Return the provider and model of a name; raise ModelNotAvailableError for none."""
        found = self._find(text.strip(), base)
        if isinstance(found, tuple):
            return found
        near = ", ".join(self.nearest(found.like, base)) or "none is known"
        hint = found.hint or f"the nearest names: {near}"
        raise ModelNotAvailableError(found.message, hint=hint, code=found.code)

    def sought(self, text: str, base: str) -> tuple[str, str] | None:
        """Return the provider and model that a name seems to mean, or None."""
        found = replace(self, listed={})._find(text.strip(), base)
        return found if isinstance(found, tuple) else None

    def provider_of(self, text: str) -> str | None:
        """Return the provider that a name says by itself; None for a model of any."""
        alias = self.settings.models.get(text.strip())
        head = text.strip().partition("/")[0]
        if alias is not None:
            return alias.provider
        return head if head in self.providers else None

    def meant(self, text: str, base: str | None) -> tuple[str, str] | None:
        """Return the provider and model that the user defined a name to mean, installed or not.

        That is an alias, or a model with a provider in the registry unless `base`, which has the
        bare ones, takes it. None for all other names, even those that say a provider.
        """
        text = text.strip()
        alias, known = self.settings.models.get(text), self.settings.model_registry.get(text)
        if alias is not None:
            return alias.provider, alias.model_id
        if known is None or known.provider is None or text in self.providers:
            return None
        is_of_base = base is not None and self.is_taken(base, text)
        return None if is_of_base and base != known.provider else (known.provider, text)

    def check_provider(self, text: str) -> None:
        """Raise ModelNotAvailableError, with the nearest names, unless it is installed."""
        if text not in self.providers:
            if (why := self.absent.why(kind_of(text, self.settings))) is not None:
                raise ModelNotAvailableError(why.message, hint=why.hint)
            near = _slips(text, (*self.providers, *OWN_PROVIDERS))
            meant = f"did you mean {near[0]}? " if near and near[0] != text else ""
            raise ModelNotAvailableError(
                f"provider {text!r} is not installed", hint=f"{meant}{self._installed}"
            )

    def is_taken(self, provider: str, model: str) -> bool:
        """Return whether a provider is known to take a model."""
        if model == DEFAULT_MODEL or self.is_configured(provider, model):
            return True
        listing = self.listed.get(provider)
        return listing is not None and listing.has(model)

    def is_configured(self, provider: str, model: str) -> bool:
        """Return whether the settings say that a provider has a model."""
        known = self.settings.model_registry.get(model)
        section = self.settings.providers.get(provider)
        return (known is not None and known.provider == provider) or (
            section is not None and model in section.models
        )

    def nearest(self, text: str, base: str) -> list[str]:
        """Return the known names most like one, the best first."""
        marks: dict[str, float] = {}
        for said, name in self._sayings(base):
            marks[name] = max(_likeness(text, said), marks.get(name, 0.0))
        likely = sorted(marks, key=lambda name: (-marks[name], name))
        names = (name for name in likely if isinstance(self._find(name, base), tuple))
        return list(islice(names, SHOWN))

    @property
    def _installed(self) -> str:
        there = ", ".join(sorted(self.providers)) or "none"
        return f"installed providers: {there}{self.absent.hint}"

    def _sayings(self, base: str) -> Iterator[tuple[str, str]]:
        for name in (*self.settings.models, *self.providers):
            yield name, name
        for provider, listing in self.listed.items():
            for model in listing.visible:
                full = f"{provider}/{model.model_id}"
                is_bare = self._find(model.model_id, base) == (provider, model.model_id)
                for said in (model.model_id, *model.aliases, model.display_name or full):
                    yield said, model.model_id if is_bare else full
                    yield f"{provider}/{said}", full

    def _find(self, text: str, base: str) -> tuple[str, str] | _Wrong:
        alias = self.settings.models.get(text)
        if alias is not None:
            wrong = self._wrong_provider(text, alias.provider)
            return wrong or self._checked(text, alias.provider, alias.model_id)
        if text in self.providers:
            return text, DEFAULT_MODEL
        head, slash, model = text.partition("/")
        if not text or (slash and not head):
            return _Wrong(f"{text!r} names no model", text)
        if head in self.providers:
            return self._checked(text, head, model)
        return self._find_bare(text, base)

    def _find_bare(self, text: str, base: str) -> tuple[str, str] | _Wrong:
        if self.is_taken(base, text):
            return base, text
        if (meant := self.meant(text, base)) is not None:
            return self._wrong_provider(text, meant[0]) or meant
        head, slash, _ = text.partition("/")
        is_sure = bool(slash) and base not in self.providers
        wrong = self._wrong_provider(text, head, is_sure=is_sure)
        found = wrong or self._wrong_provider(text, base) or self._checked(text, base, text)
        known = (*self.settings.models, *self.providers, *OWN_PROVIDERS)
        if isinstance(found, tuple) and text.isalpha() and _slips(text, known):
            return _Wrong(f"there is no model {text!r}", text)  # but one of those was meant
        return found

    def _checked(self, text: str, provider: str, model: str) -> tuple[str, str] | _Wrong:
        if not model.strip():
            return _Wrong(f"{text!r} names no model", text)
        listing = self.listed.get(provider)
        if self.is_taken(provider, model) or listing is None or not listing.is_fresh:
            return provider, model
        like = text if text == model else f"{provider}/{model}"
        return _Wrong(f"provider {provider} has no model {model!r}", like)

    def _wrong_provider(self, text: str, provider: str, *, is_sure: bool = True) -> _Wrong | None:
        """Return what is wrong with a provider that is missing or unknown.

        Some vendors' models begin with what looks like a provider. Unless it `is_sure` to be one,
        only what cannot be anything else is wrong.
        """
        if provider in self.providers:
            return None
        if (why := self.absent.why(kind_of(provider, self.settings))) is not None:
            what = f"model {text!r} needs {why.message}"
            return _Wrong(what, text, hint=why.hint, code=ModelNotAvailableError.code)
        installed = self._installed
        near = _slips(provider, self.providers)
        is_known = provider in OWN_PROVIDERS or provider in self.settings.providers
        if is_known or (is_sure and not near):
            what = f"model {text!r} needs provider {provider!r}, which is not installed"
            return _Wrong(what, text, hint=installed, code=ModelNotAvailableError.code)
        if is_sure or ("/" in text and provider.isalpha() and near):
            what = f"model {text!r} needs provider {provider!r}, which there is not"
            return _Wrong(what, text, hint=f"did you mean {near[0]}? {installed}")
        return None


def kind_of(name: str, settings: Settings) -> str:
    """Return the installed provider that a configured one is an instance of."""
    section = settings.providers.get(name)
    return name if section is None or section.kind is None else section.kind


def _likeness(one: str, other: str) -> float:
    from difflib import SequenceMatcher

    return SequenceMatcher(None, one.lower(), other.lower()).ratio()


def _slips(text: str, names: Iterable[str]) -> list[str]:
    marks = {name: _likeness(text, name) for name in names}
    near = [name for name in marks if marks[name] >= _SLIP]
    return sorted(near, key=lambda name: (-marks[name], name))
