"""prsm_core.door: the schema of what frontends are answered."""

import json
import re

import pytest

import prsm_core
from prsm_core import door
from prsm_core.cli import main
from tests.public_names import homes_of

NAMES = set(homes_of(door))


@pytest.fixture
def schema(capsys):
    """What `prsm config schema --door` prints."""
    assert main(["config", "schema", "--door"]) == 0
    return json.loads(capsys.readouterr().out)


def _record(name):
    """Return a record of the door, or the one of the core that it is made with."""
    return getattr(door if name in NAMES else prsm_core, name)


def test_one_schema_names_every_record_and_refers_to_nothing_else(schema):
    assert schema["$defs"].keys() >= NAMES
    refers = set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(schema)))
    assert refers <= schema["$defs"].keys()
    assert "HistoryEntry" in schema["$defs"]


def test_each_field_is_explained_by_its_record(schema):
    for name, shape in schema["$defs"].items():
        for field in shape.get("properties", {}):
            about = " ".join(kind.__doc__ or "" for kind in _record(name).__mro__)
            said = "source" if field == "from" else field
            assert re.search(rf"\b{said}\b", about), f"{name}.{field}"
