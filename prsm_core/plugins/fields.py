"""What the fields of a record must be; looked at once, when its plugin is loaded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from prsm_core.domain.tools import ToolSpec
from prsm_core.interfaces.frontend import SCOPES, FrontendSpec
from prsm_core.interfaces.permission import PermissionCheckSpec
from prsm_core.interfaces.provider import ProviderSpec
from prsm_core.interfaces.scorer import ModelScorerSpec
from prsm_core.interfaces.sink import EventSinkSpec
from prsm_core.interfaces.tool import ToolContribution
from prsm_core.plugins.values import (
    COUNT,
    FLAG,
    POSITIVE,
    TEXT,
    TEXTS,
    WHOLE,
    Kind,
    first_problem,
    instance,
    maybe,
    one_of,
)

if TYPE_CHECKING:
    from prsm_core.plugins.records import Spec
    from prsm_core.plugins.values import Table


def _is_import_string(text: str) -> bool:
    module, colon, attribute = text.partition(":")
    return bool(module and colon and attribute)


def _is_pattern(value: Any) -> bool:
    try:
        re.compile(value)
    except (TypeError, re.error):
        return False
    return isinstance(value, str)


def _is_code(value: Any) -> bool:
    return _is_import_string(value) if isinstance(value, str) else callable(value)


_CODE = Kind('a function, a class, or text such as "package.module:attribute"', _is_code)
_SETTINGS = maybe(_CODE)  # a model, which is a class; the manager looks at what it is
_COMMON = {"name": TEXT, "summary": TEXT}
RECORDS: Table = {
    ProviderSpec: {
        **_COMMON,
        "factory": _CODE,
        "selectable": FLAG,
        "good_for": TEXT,
        "settings": _SETTINGS,
        "forget": maybe(_CODE),
        "program": FLAG,
        "handed": TEXTS,
        "server_names": Kind("a regular expression", _is_pattern),
        "reads_labels": TEXTS,
    },
    PermissionCheckSpec: {
        **_COMMON,
        "priority": WHOLE,
        "check": _CODE,
        "in_bypass": FLAG,
        "orchestration": FLAG,
        "timeout": POSITIVE,
        "level": maybe(one_of("none", "sandbox", "approval", "pre_tool")),
        "labels": TEXTS,
        "settings": _SETTINGS,
    },
    ModelScorerSpec: {**_COMMON, "weight": POSITIVE, "score": _CODE, "settings": _SETTINGS},
    EventSinkSpec: {
        **_COMMON,
        "factory": _CODE,
        "kinds": maybe(TEXTS),
        "maxsize": COUNT,
        "overflow": one_of("drop_oldest", "drop_newest"),
        "settings": _SETTINGS,
        "unseen": maybe(TEXT),
        "reads_labels": TEXTS,
    },
    FrontendSpec: {
        **_COMMON,
        "interactive": FLAG,
        "priority": WHOLE,
        "factory": _CODE,
        "settings": _SETTINGS,
        "stays": FLAG,
        "scope": one_of(*SCOPES),
        "section": maybe(TEXT),
    },
    ToolContribution: {
        **_COMMON,
        "spec": instance(ToolSpec),
        "handler": _CODE,
        "when": _CODE,
        "settings": _SETTINGS,
        "section": maybe(TEXT),
        "programs": FLAG,
        "labels": TEXT,
        "sends_messages": FLAG,
        "takes_messages": FLAG,
        "acts_outside": FLAG,
        "is_repeatable": FLAG,
        "reads_labels": TEXTS,
    },
}


def check_fields(spec: Spec) -> None:
    """Raise TypeError for a field that is not what it must be."""
    problem = first_problem(spec, RECORDS)
    if problem is not None:
        raise TypeError(problem)
