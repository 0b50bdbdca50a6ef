"""Rules that are no first words but stand for a class of commands."""

from __future__ import annotations

from types import MappingProxyType

# They only allow.
LOOK_UPS = "@look-ups"
"""The rule that allows look-ups at services."""
BUILDS = "@builds"
"""The rule that allows builds of the project."""
RULE_CLASSES = MappingProxyType(
    {
        LOOK_UPS: "looks things up at a service and changes nothing",
        BUILDS: "builds a project that you trust: npm run build, cargo build, go build, make …",
    }
)
"""What each class does, for people."""
