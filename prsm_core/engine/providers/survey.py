"""A survey of providers: which can be used, how far permissions reach, and their models."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.domain.record import Record
from prsm_core.errors import PrsmError
from prsm_core.interfaces.provider import ProviderCapabilities, ProviderStatus
from prsm_core.kit.clocks import SystemClock
from prsm_core.plugins.guard import Guest, TooLateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prsm_core.domain.models import ModelInfo
    from prsm_core.engine.providers.registry import ProviderRegistry
    from prsm_core.interfaces.clock import Clock

_log = logging.getLogger("prsm.engine")
_told = logging.getLogger("prsm.told")  # what people are to know, though nothing is wrong

SOON_SECONDS = 0.7  # what is waited for longer is told
DISCOVERY_SECONDS = 20.0  # some vendors start their whole program to list models


class ProviderReport(Record, frozen=True, kw_only=True):
    """What is known of one provider; without capabilities where it could not even be built."""

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
    """Look at providers at once; whatever goes wrong with one is part of its report.

    Args:
        registry: Builds the providers.
        names: Which to look at.
        with_models: Whether those that can be used are asked for their models.
        seconds: How long they may take to answer that.
        redact: Takes secrets out of what is told of a provider: its program may have said anything.
    """
    wanted = list(names)
    patience = seconds if with_models else None
    reports = await asyncio.gather(*(_look(registry, name, patience) for name in wanted))
    clean = [_without_secrets(report, redact) for report in reports]
    return dict(zip(wanted, clean, strict=True))


def _without_secrets(report: ProviderReport, redact: Callable[[str], str]) -> ProviderReport:
    def told(text: str | None) -> str | None:
        return None if text is None else redact(text)

    status = replace(
        report.status, reason=told(report.status.reason), hint=told(report.status.hint)
    )
    return replace(report, status=status, models_problem=told(report.models_problem))


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
    """Return the models that a provider lists, and why it lists none within so many seconds.

    Who waits for it is told which provider is slow.
    """
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
    """Return whether a provider takes a model that it does not list; also where it cannot say."""
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
    """Say which answer takes long, once it does."""
    text = f"waiting for {what} (up to {seconds:g} s)"
    soon = clock.call_later(SOON_SECONDS, lambda: _told.info(text))
    try:
        yield
    finally:
        soon.cancel()
