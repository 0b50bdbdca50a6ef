"""The reference pages say what is so: every setting, every variable, every command."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from prsm_core.cli.group import COMMANDS
from prsm_core.config import Settings
from prsm_core.domain.events import EVENT_FIELDS
from tests.config.place import Place
from tests.documents import blocks_of
from tests.event_meanings import EVENT_MEANINGS
from tests.reference import (
    CLI_PAGE,
    CONFIG_PAGE,
    PARTS,
    PLUGINS_PAGE,
    cli_parts,
    config_parts,
    holds_entries,
    is_list,
    part_names,
    section_keys,
    updated,
    variable,
)
from tests.sources import package_files

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIG = CONFIG_PAGE.read_text(encoding="utf-8")
READ = re.compile(r"\b(?:environ|getenv)\b.*[\"'](PRSM_[A-Z_]+)[\"']")
SYNC = "run `python tests/reference.py --sync`"


def examples() -> dict[str, Any]:
    """Return what the YAML blocks of the page set, by section."""
    found: dict[str, Any] = {}
    for block in blocks_of(CONFIG, CONFIG_PAGE):
        if block.language == "yaml":
            found |= yaml.safe_load(block.text)
    return found


EXAMPLES = examples()


def settings_of_examples() -> Iterator[tuple[str, ...]]:
    """Yield the path of each setting that an example shows."""
    for section, values in EXAMPLES.items():
        if is_list(section):
            yield (section,)
        elif holds_entries(section):
            yield from ((section, name, key) for name, entry in values.items() for key in entry)
        else:
            yield from ((section, key) for key in values)


def need_all_commands() -> None:
    """Skip where a package of ours is not installed whose command is on the page."""
    for package in {place for place, _ in COMMANDS.values() if not place.startswith(".")}:
        pytest.importorskip(package.replace("-", "_"), reason=f"{package} is not installed")


@pytest.mark.parametrize("page", PARTS, ids=lambda page: page.name)
def test_the_page_is_up_to_date(page):
    if page == CLI_PAGE:
        need_all_commands()
    assert page.read_text(encoding="utf-8") == updated(page), SYNC


def test_every_section_is_on_the_page():
    assert part_names(CONFIG_PAGE) == list(Settings.__struct_fields__) == list(config_parts())


def test_every_command_is_on_the_page():
    need_all_commands()
    assert part_names(CLI_PAGE) == list(cli_parts())


@pytest.mark.requirement("C5")
def test_everything_that_a_plugin_meets_is_on_the_page():
    assert sorted(part_names(PLUGINS_PAGE)) == sorted(PARTS[PLUGINS_PAGE]())
    assert EVENT_MEANINGS.keys() == EVENT_FIELDS.keys()


@pytest.mark.parametrize("section", Settings.__struct_fields__)
def test_every_key_has_its_row_and_stands_in_an_example(section):
    values = EXAMPLES[section]
    if is_list(section):
        assert f"| `{variable(section)}` |" in config_parts()[section]
        return
    entries = list(values.values()) if holds_entries(section) else [values]
    shown = {key for entry in entries for key in entry}
    table = config_parts()[section]
    above = [section, "<NAME>"] if holds_entries(section) else [section]
    for key in section_keys(section):
        assert key in shown, f"no example of {section}.{key}"
        assert f"| `{variable(*above, key)}` |" in table


@pytest.mark.requirement("U11")
@pytest.mark.parametrize("path", list(settings_of_examples()), ids=".".join)
def test_an_example_can_be_given_by_file_by_its_variable_and_by_option(path, tmp_path):
    values: Any = json.loads(json.dumps({path[0]: EXAMPLES[path[0]]}))
    place = Place(tmp_path)
    place.user(json.dumps(values))
    by_file = place.load().settings
    holder = values
    for key in path[:-1]:
        holder = holder[key]
    value = json.dumps(holder.pop(path[-1]))
    place.user(json.dumps(values))
    place.environ[variable(*path)] = value
    assert place.load().settings == by_file
    del place.environ[variable(*path)]
    assert place.load(sets=[f"{'.'.join(path)}={value}"]).settings == by_file


def test_every_variable_that_is_read_is_on_the_page():
    found = {name for path in package_files() for name in READ.findall(path.read_text("utf-8"))}
    assert "PRSM_HOME" in found
    assert not [name for name in found if f"| `{name}` |" not in CONFIG]
