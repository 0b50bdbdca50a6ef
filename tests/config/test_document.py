"""Whatever stands in a file, it is read or refused with its place; never anything else."""

import cProfile
import os
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.config import resolve_paths
from prsm_core.config.document import MAX_BYTES, parse_value, read_document
from prsm_core.config.policy_file import read_policy, user_policy_path
from prsm_core.errors import ConfigError

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30))

# Text, where the error is told ("" for the file as a whole), and a part of the message.
BAD = [
    ("a: [1, 2", "1:9", "expected ',' or ']'"),
    ("a: 1\n  b: 2", "2:4", "mapping values are not allowed here"),
    ("a: 1\n\tb: 2", "2:1", "is not YAML: a tab stands where only spaces may"),
    ("a: 'x", "1:6", "unexpected end of stream"),
    ("a: *x", "1:4", "found undefined alias"),
    ("a: 1\n---\nb: 2", "2:1", "but found another document"),
    ("a: 1\nb: 2\na: 3", "3:1", "the key a stands twice"),
    ("a: {b: 1, b: 2}", "1:11", "the key b stands twice"),
    ("1: a", "1:1", "a key must be text"),
    ("on: a", "1:1", "a key must be text"),
    ("? [a]\n: b", "1:3", "a key must be text"),
    ("x: &x {a: 1}\ny:\n  <<: *x", "3:3", "merge keys (<<) are not supported"),
    ("a: !!python/object/apply:os.system [id]", "1:4", "the tag !!python/object"),
    ("a: !own x", "1:4", "the tag !own is not supported"),
    ("a: !!map x", "1:4", "the tag !!map is not supported"),
    ("a: !!binary aGk=", "1:4", "the tag !!binary is not supported"),
    ("a: !!int x", "1:4", "is no int that can be read"),
    ("a: !!bool x", "1:4", "is no bool that can be read"),
    (f"a: {'9' * 5000}", "1:4", "is no int that can be read"),
    ("ok: 1\na: \x01", "2:4", "holds a character that YAML forbids"),
    ("a: &a [*a]", "1:4", "is nested too deeply"),
    ("[" * 50 + "]" * 50, "1:42", "is nested too deeply"),
    ("[" * 100_000, "1:42", "is nested too deeply"),
    ("deny: " + "[" * 3_000, "1:47", "is nested too deeply"),
    ("a: 1\n" + "- " * 3_000, "2:1", "is not YAML"),
    ("- " * 3_000 + "x", "1:83", "is nested too deeply"),
    ("? " * 3_000 + "x", "1:83", "is nested too deeply"),
    ("a:\n - " + "{a: " * 3_000, "2:160", "is nested too deeply"),
    ("- a\n" * 100_000, "20000:3", "holds more than 20,000 values"),
    ("[" + "[]," * 100_000 + "]", "1:59999", "holds more than 20,000 values"),
    (BOMB, "1:5", "its aliases stand for too many values"),
]


@pytest.mark.parametrize(("text", "place", "message"), BAD)
def test_a_bad_file_is_refused_with_line_and_column(tmp_path, text, place, message):
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_document(path)
    assert caught.value.message.startswith(f"{path}:{place}: " if place else f"{path}: ")
    assert message in caught.value.message


NESTED = {
    "brackets": lambda n: "deny: " + "[" * n,
    "closed brackets": lambda n: "deny: " + "[" * n + "]" * n,
    "braces": lambda n: "{a: " * n,
    "dashes": lambda n: "- " * n + "x",
    "questions": lambda n: "? " * n + "x",
    "brackets in rules": lambda n: "deny:\n" + f"  - {'[' * 3_000}\n" * (n // 1_000),
}


def steps(work) -> int:
    """Return how many calls some work makes: what it costs, whatever else the machine does."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize("kind", NESTED)
def test_what_is_nested_deeper_costs_no_more(tmp_path, kind):
    """A reader that goes on until it runs out of stack looks through all that is open each time."""
    paths = resolve_paths(tmp_path, {"PRSM_HOME": str(tmp_path)})

    def cost(depth):
        user_policy_path(paths).write_text(NESTED[kind](depth))
        policy = []
        spent = steps(lambda: policy.append(read_policy(paths)))
        [problem] = policy[0].problems
        assert re.match(rf"{tmp_path}/policy.yaml:\d+:\d+: is nested too deeply", problem)
        assert policy[0].incomplete
        return spent

    small, large = cost(1_000), cost(3_000)
    assert large < 4 * small
    assert large < 200_000


def test_a_long_line_of_a_broken_policy_costs_no_more_than_its_length(tmp_path):
    """Were the search quadratic, this test would not end."""
    paths = resolve_paths(tmp_path, {"PRSM_HOME": str(tmp_path)})
    spaces = " " * 200_000
    user_policy_path(paths).write_text(f"deny:\n  -{spaces}a{spaces}b # c{spaces}\n  - ]\n")
    policy = read_policy(paths)
    assert policy.words("deny") == (("a", "b"), ("]",))
    assert policy.incomplete


def test_what_is_no_text_file_is_refused(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(ConfigError, match=r":2: is not UTF-8 text"):
        read_document(path)
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(ConfigError, match="is larger than 1 MiB"):
        read_document(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ConfigError, match="is not a regular file"):
        read_document(path)
    with pytest.raises(ConfigError, match="is not a regular file"):
        read_document(tmp_path)


def test_a_configuration_that_is_no_mapping_is_refused(place):
    path = place.user("- a\n- b\n")
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert caught.value.message == f"{path}:1: the configuration must be a mapping"


@pytest.mark.parametrize("text", ["", "# nothing", "---\n", "\ufeff"])
def test_an_empty_file_says_nothing(place, text):
    place.user(text)
    assert place.load().sources == {}


def test_a_missing_file_is_none(tmp_path):
    assert read_document(tmp_path / "config.yaml") is None


def test_every_key_and_item_knows_its_line(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("a:\n  b: 1\n  c:\n    - x\n    - {d: 2}\n")
    document = read_document(path)
    assert document is not None
    assert document.value == {"a": {"b": 1, "c": ["x", {"d": 2}]}}
    assert {key: origin.rpartition(":")[2] for key, origin in document.origins.items()} == {
        (): "1",
        ("a",): "1",
        ("a", "b"): "2",
        ("a", "c"): "3",
        ("a", "c", 0): "4",
        ("a", "c", 1): "5",
        ("a", "c", 1, "d"): "5",
    }


def test_a_date_is_text_and_an_alias_is_what_it_stands_for():
    document = parse_value("{model: 2026-11-21, a: &x [1], b: *x}", origin="X")
    assert document.value == {"model": "2026-11-21", "a": [1], "b": [1]}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(VALUES)
def test_what_yaml_writes_is_read_back(value):
    assert parse_value(yaml.safe_dump(value), origin="X").value == value


@given(st.text(st.sampled_from("ab:- \n\t[]{}&*!|>'\"%@`#,?<~019.\\\x00\ufeff")) | st.text())
def test_any_text_is_read_or_refused_with_its_origin(text):
    try:
        read = parse_value(text, origin="X").origins[()] == "X"
    except ConfigError as error:
        read = error.message.startswith("X: ")
    assert read
