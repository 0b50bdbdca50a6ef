"""The JSON Schema of a configuration file."""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import TYPE_CHECKING, Any

from prsm_core.config.schema import Settings
from prsm_core.domain.structs import schema_of

if TYPE_CHECKING:
    from msgspec import Struct

_ATTRIBUTES = "\n\nAttributes:\n"
_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)


def config_schema() -> dict[str, Any]:
    """Return the JSON Schema of a configuration file, for editors."""
    schema, parts = described(Settings, "#/$defs/{name}")
    schema["$defs"] = parts
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "PRSM configuration"
    # A plugin's own keys stand beside those that all providers share.
    del parts["ProviderSettings"]["properties"]["own"]
    parts["ProviderSettings"]["additionalProperties"] = True
    # The older place of MCP servers; see old_keys.
    parts["PluginSettings"]["additionalProperties"] = {
        "$ref": "#/$defs/McpServerSettings",
        "deprecated": True,
    }
    return schema


def described(kind: type[Struct], template: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the JSON Schema of a struct, and by name the schemas it refers to.

    Fields are described by the `Attributes:` of their class. Unknown keys are mistakes.
    """
    reference, parts = schema_of(kind, template)
    for part in parts.values():
        del part["title"]
        text, _, attributes = cleandoc(part.get("description", "")).partition(_ATTRIBUTES)
        for name, meaning in _ATTRIBUTE.findall(attributes):
            part["properties"][name]["description"] = " ".join(meaning.split())
        if "properties" in part:
            part |= {"description": text, "additionalProperties": False}
    own = next(name for name in parts if reference["$ref"] == template.format(name=name))
    return parts.pop(own), parts
