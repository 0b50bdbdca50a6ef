"""How what a plugin registers gets its settings: as the last argument of what it names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import StructMeta
from msgspec.structs import replace

from prsm_core.domain.record import Record
from prsm_core.errors import PluginError, PrsmError
from prsm_core.interfaces.frontend import FrontendSpec
from prsm_core.interfaces.permission import PermissionCheckSpec
from prsm_core.interfaces.scorer import ModelScorerSpec
from prsm_core.interfaces.sink import EventSinkSpec
from prsm_core.interfaces.tool import ToolContribution
from prsm_core.plugins.objects import load_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.plugins.records import Spec

Configurable: TypeAlias = (
    PermissionCheckSpec | ModelScorerSpec | EventSinkSpec | FrontendSpec | ToolContribution
)

# The section of each kind; providers have theirs, which the core reads as well.
SECTIONS: Mapping[str, type[Configurable]] = {
    "sinks": EventSinkSpec,
    "checks": PermissionCheckSpec,
    "scorers": ModelScorerSpec,
    "frontends": FrontendSpec,
    "tools": ToolContribution,
}
# The field that has the code of these; of all others it is `factory`.
_CODE: Mapping[type, str] = {
    PermissionCheckSpec: "check",
    ModelScorerSpec: "score",
    ToolContribution: "handler",
}
# Arguments that come before the settings, if not one. A sink without a model gets a mapping there.
_BEFORE: Mapping[type, int] = {PermissionCheckSpec: 2, ModelScorerSpec: 2}


class WithSettings(Record, frozen=True, kw_only=True):
    """A record's code, called with its settings as the last argument.

    `problem` is why there are no settings; each call raises it. `before` counts the arguments
    before them.
    """

    reference: object
    plugin: str
    settings: Any
    problem: PrsmError | None
    before: int

    def __call__(self, *arguments: Any) -> Any:
        """Call it; raises the problem, or PluginError when it cannot be imported."""
        return self.resolved()(*arguments[: self.before], self.settings)

    def resolved(self) -> Any:
        """Return what was registered, imported; raises as a call does."""
        if self.problem is not None:
            raise self.problem
        return load_object(self.reference, plugin=self.plugin)


def section_of(spec: Spec) -> str:
    """Return by which name the settings of a record stand in the section of its kind."""
    shared = spec.section if isinstance(spec, FrontendSpec | ToolContribution) else None
    return shared or spec.name


def settings_model(spec: Spec, *, plugin: str) -> Any:
    """Return the struct of a record's settings, None if it has none. Raises PluginError."""
    reference = getattr(spec, "settings", None)
    if reference is None:
        return None
    model = load_object(reference, plugin=plugin)
    if not isinstance(model, StructMeta):
        raise PluginError(f"plugin {plugin}: the settings of {spec.name!r} are no msgspec.Struct")
    return model


def with_settings(spec: Configurable, found: Any, *, plugin: str) -> Configurable:
    """Return the record with its settings given to it; `found` may be why there are none."""
    problem = found if isinstance(found, PrsmError) else None
    before = reference_of(spec)
    wrapped = WithSettings(
        reference=before.reference if isinstance(before, WithSettings) else before,
        plugin=plugin,
        settings=None if problem else found,
        problem=problem,
        before=_BEFORE.get(type(spec), 1),
    )
    return replace(spec, **{_CODE.get(type(spec), "factory"): wrapped})


def reference_of(spec: Spec) -> object:
    """Return what a record registers: its factory, check, score function or handler."""
    match spec:
        case PermissionCheckSpec():
            return spec.check
        case ModelScorerSpec():
            return spec.score
        case ToolContribution():
            return spec.handler
        case _:
            return spec.factory
