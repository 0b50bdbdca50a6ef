"""Scenarios: what scripted agents say and do, step by step, read from YAML.

A scenario is a mapping (or a YAML file) of lanes; a lane is the script of one agent::

    lanes:
      master:
        steps:
          - think: I need help.
            call: {id: spawn, tool: spawn_child, arguments: {prompt: "[[lane:w1]] count"}}
          - call: {tool: check_child_status, arguments: {child_id: "${spawn.agent_id}"}}
          - say: All done.
      w1:
        steps:
          - shell: wc -l *.txt
          - call: {tool: task_complete, arguments: {summary: 3 lines}}

`lanes` may also be a list of such mappings with a `name`. A lane's `marker` is `[[lane:NAME]]`
unless given; the lane of a request is that of the **first** marker in its user messages, in
order of time (an agent keeps the lane of its first prompt, also after a rebuild), and only
without one the first marker in its system texts. Without any marker it is the lane with the
agent's name, where that is known, and last the lane with the marker "", which takes the rest.

One step answers one model request: it says something, then all its calls begin together. A step
without a call ends the turn. It holds any of

`say` `think`           text and thinking, streamed in pieces
`call` `shell`          tool calls, one or a list each: {tool, arguments, id, namespace}, or a
                        command line or {cmd, id}; ids are made unique, but for those that
                        begin with "="
`error`                 an HTTP error {status, code, message, times}; `times` requests get it
                        ("always": every further one), then the step's own answer if it has one
`hang`                  seconds of silence in the middle of the stream; true: for ever
`usage`                 {input_tokens, cached_input_tokens, output_tokens, reasoning_tokens}
`expect`                texts that the request must hold; otherwise it is refused
`delay`                 seconds: of the model server between two pieces of the stream, of the
                        script provider before the step

The model server also plays

`patch`                 the text of a patch, one or a list
`stream_error`          a stream that fails with {code, message}
`incomplete`            a stream that ends early, with this reason (true: max_output_tokens)
`cut`                   true: the connection ends in the middle of the stream

and the script provider, which carries out commands, edits and questions itself,

`edit`                  {path, old, new, id} replaces the one place that reads `old`,
                        {path, content, id} writes the file
`ask_user`              a question, or {question, options, multiple, id}
`fail`                  ends the turn with an error: its message, or {message, kind, retryable,
                        retry_after_s, times}
`crash`                 the provider itself breaks, with this text
`on_denied` `on_error`  what becomes of the turn when a call of the step is denied, or has
                        failed: continue (the default) or fail

Arguments and the texts of `say` may hold templates: `${spawn.children.0.agent_id}` is a value of
the latest output of the call with the id `spawn` (or, without one, of the tool of that name);
`${/regex/}` is the first group of its last match in the request, an int if it is one. A text
that is nothing but a template keeps the value's type. To the script provider the output of a
command is {status, exit_code, stdout, stderr}, of an edit {status}, of a question {choices,
text}; `status` is completed, failed or denied, the last two with a `reason`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core import ConfigError
from prsm_demo.script.reading import MODEL_KEYS, check_keys, listed, read_step, required
from prsm_demo.script.steps import Lane

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_LANE_KEYS = ("name", "marker", "steps")
_DATE = "tag:yaml.org,2002:timestamp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The scripts of all agents of a run."""

    lanes: tuple[Lane, ...]

    @classmethod
    def from_mapping(
        cls, data: Mapping[str, Any], *, keys: Collection[str] = MODEL_KEYS
    ) -> Scenario:
        """Build a scenario whose steps hold any of `keys`, by default what a model server plays.

        Raises ConfigError that names the place and the nearest key.
        """
        check_keys(data, ("lanes",), "scenario")
        lanes = data.get("lanes", {})
        if not isinstance(lanes, dict):
            lanes = {_name(lane, f"lanes[{n}]"): lane for n, lane in enumerate(listed(lanes))}
        return cls(lanes=tuple(_lane(name, lane, keys) for name, lane in lanes.items()))

    @classmethod
    def load(cls, path: str | Path, *, keys: Collection[str] = MODEL_KEYS) -> Scenario:
        """Read a scenario from a YAML file; raises as `from_mapping` does."""
        data = _read_yaml(Path(path))
        if not isinstance(data, dict):
            raise ConfigError(f"{path}: a scenario is a mapping with `lanes`")
        return cls.from_mapping(data, keys=keys)


def _read_yaml(path: Path) -> Any:
    """Return what a YAML file holds. Raises ConfigError, with the line where there is one."""
    # Scenarios as mappings need no yaml.
    import yaml

    # A date is the text that it is.
    resolvers = {
        first: [(tag, pattern) for tag, pattern in each if tag != _DATE]
        for first, each in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    loader = type("Loader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": resolvers})

    hint = "A scenario is a YAML file."
    try:
        # A pipe or a device waits, or never ends.
        if not path.is_file():
            what = "is not a regular file" if path.exists() else "there is no such file"
            raise ConfigError(f"{path}: {what}", hint=hint)
        return yaml.load(path.read_text(encoding="utf-8"), loader)  # noqa: S506 - a safe one
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}", hint=hint) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        problem = getattr(error, "problem", None) or "is no YAML"
        raise ConfigError(f"{place}: {problem}", hint=hint) from error


def _lane(name: str, data: Mapping[str, Any], keys: Collection[str]) -> Lane:
    check_keys(data, _LANE_KEYS, f"lane {name}")
    steps = (
        read_step(f"lane {name} step {n}", step, keys)
        for n, step in enumerate(listed(data.get("steps", [])))
    )
    marker = str(data.get("marker", f"[[lane:{name}]]"))
    return Lane(name=name, marker=marker, steps=tuple(steps))


def _name(lane: Any, where: str) -> str:
    check_keys(lane, _LANE_KEYS, where)
    return required(lane, "name", where)
