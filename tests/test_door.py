"""prsm_core.door: the schema of what frontends are answered."""

import json
import re

from prsm_core import door
from prsm_core.cli import main


def test_one_schema_names_every_record_and_refers_to_nothing_else(capsys):
    assert main(["config", "schema", "--door"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["$defs"].keys() >= set(door.__all__)
    refers = set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(schema)))
    assert refers <= schema["$defs"].keys()
    assert "HistoryEntry" in schema["$defs"]


def test_each_field_is_explained_by_its_record():
    for name, shape in door.json_schema()["$defs"].items():
        for field in shape.get("properties", {}):
            about = " ".join(kind.__doc__ or "" for kind in getattr(door, name).__mro__)
            said = "source" if field == "from" else field
            assert re.search(rf"\b{said}\b", about), f"{name}.{field}"
