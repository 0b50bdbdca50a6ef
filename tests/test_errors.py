"""The exception tree is the one its docstring draws."""

from __future__ import annotations

import inspect
import re

import pytest

from prsm_core import errors
from prsm_core.errors import InvalidTransitionError, OrchestrationError, PrsmError

CLASSES: dict[str, type[PrsmError]] = {
    name: cls for name, cls in vars(errors).items() if isinstance(cls, type)
}

NINE = (
    "AgentSpawnError",
    "AgentTimeoutError",
    "MessageRoutingError",
    "DeadlockDetectedError",
    "MaxDepthExceededError",
    "ExpertNotFoundError",
    "ToolCallTimeoutError",
    "ProviderNotAvailableError",
    "ModelNotAvailableError",
)


def drawn_tree() -> dict[str, str | None]:
    """Return each class of the drawing with the class it hangs from."""
    parents: dict[str, str | None] = {}
    at_depth: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"([│├└─\s]*)([A-Z]\w+Error)\b", line):
            depth = len(match[1]) // 4
            parents[match[2]] = at_depth[depth - 1] if depth else None
            at_depth[depth:] = [match[2]]
    return parents


def test_the_docstring_draws_the_real_tree():
    real = {name: cls.__bases__[0].__name__ for name, cls in CLASSES.items()}
    assert drawn_tree() == {**real, "PrsmError": None}


def test_every_error_of_the_module_is_listed():
    defined = {name for name, value in vars(errors).items() if inspect.isclass(value)}
    assert defined == set(CLASSES)


@pytest.mark.parametrize("name", NINE)
def test_the_specified_errors_are_orchestration_errors(name):
    assert issubclass(CLASSES[name], OrchestrationError)


def test_every_error_has_a_code_of_its_own():
    codes = {cls.code for cls in CLASSES.values()}
    assert len(codes) == len(CLASSES)
    assert all(re.fullmatch(r"[a-z][a-z_]*", code) for code in codes)


@pytest.mark.parametrize(
    ("name", "exit_code"),
    [
        ("PrsmError", 1),
        ("ConfigError", 2),
        ("PluginError", 2),
        ("ProviderNotAvailableError", 3),
        ("ModelNotAvailableError", 3),
    ],
)
def test_an_error_carries_the_exit_code_of_its_kind(name, exit_code):
    assert CLASSES[name].exit_code == exit_code


def test_an_error_keeps_its_message_and_hint_apart():
    error = PrsmError("the ledger is locked", hint="close the other prsm", code="locked")
    assert (str(error), error.message) == ("the ledger is locked", "the ledger is locked")
    assert (error.hint, error.code) == ("close the other prsm", "locked")
    assert PrsmError.code == "error", "a code of one error is not the code of its class"


def test_a_refused_transition_names_machine_and_states_and_is_a_value_error():
    error = InvalidTransitionError("agent", "running", "pending")
    assert isinstance(error, ValueError)
    assert str(error) == "agent: no transition from running to pending"
    assert (error.machine, error.source, error.target) == ("agent", "running", "pending")
