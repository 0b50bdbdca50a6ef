"""The JSON Schema of a configuration file."""

from __future__ import annotations

from typing import Any

from prsm_core.config.schema import Settings


def config_schema() -> dict[str, Any]:
    """Return the JSON Schema of a configuration file, for editors."""
    schema: dict[str, Any] = without_titles(Settings.model_json_schema())
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "PRSM configuration"
    # The older place of MCP servers; see old_keys.
    schema["$defs"]["PluginSettings"]["additionalProperties"] = {
        "$ref": "#/$defs/McpServerSettings",
        "deprecated": True,
    }
    return schema


def without_titles(schema: Any) -> Any:
    """Drop the titles that pydantic makes from names; they tell an editor nothing."""
    if isinstance(schema, dict):
        return {
            key: without_titles(value)
            for key, value in schema.items()
            if not (key == "title" and isinstance(value, str))
        }
    return [without_titles(item) for item in schema] if isinstance(schema, list) else schema
