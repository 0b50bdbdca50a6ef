"""The built-in plugin: what `prsm_core` itself contributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.hookspecs import hookimpl
from prsm_core.interfaces.frontend import FrontendSpec
from prsm_core.interfaces.scorer import ModelScorerSpec
from prsm_core.interfaces.sink import EventSinkSpec

if TYPE_CHECKING:
    from collections.abc import Iterable


@hookimpl
def prsm_frontends() -> Iterable[FrontendSpec]:
    """Contribute `json`, for programs."""
    yield FrontendSpec(
        name="json",
        summary="One committed event a line on stdout; nobody is asked.",
        interactive=False,
        priority=0,
        factory="prsm_core.builtin.json_frontend:JsonFrontend",
    )


@hookimpl
def prsm_model_scorers() -> Iterable[ModelScorerSpec]:
    """Contribute `fit`, which goes by what the registry says of a model."""
    yield ModelScorerSpec(
        name="fit",
        summary="Prefers models that do such work well, and are cheap and fast.",
        weight=1.0,
        score="prsm_core.builtin.fit_scorer:score",
    )


@hookimpl
def prsm_event_sinks() -> Iterable[EventSinkSpec]:
    """Contribute `jsonl`, which writes where its setting `path` says, else nothing."""
    yield EventSinkSpec(
        name="jsonl",
        summary="Appends the events of a run to the file or folder in sinks.jsonl.path.",
        factory="prsm_core.builtin.jsonl_sink:JsonlSink",
        settings="prsm_core.config.schema:JsonlSettings",
    )
