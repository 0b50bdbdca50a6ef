"""The plugins that count as built in, as `PluginManager.load` takes them of the core."""

from __future__ import annotations

from prsm_core.builtin import BUILTINS
from prsm_core.distributions import DEFAULT_PACKAGES

DEMO = ("demo", "prsm_demo.plugin")
# All but the demonstration, whose provider has the name that tests give theirs.
WITHOUT_DEMO = (
    *BUILTINS,
    *(
        (name.removeprefix("prsm-"), f"{name.replace('-', '_')}.plugin")
        for name in sorted(DEFAULT_PACKAGES - {"prsm-demo"})
    ),
)
