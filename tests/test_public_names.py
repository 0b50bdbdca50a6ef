"""What our packages export to others: complete, sorted, seen by type checkers."""

from __future__ import annotations

import ast
import importlib
import inspect
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import prsm_testing
import pytest

import prsm_core
import prsm_core.commands
import prsm_core.executors
import prsm_core.files
import prsm_core.kit
import prsm_core.policies
import prsm_core.terminal
from tests.import_graph import imports_of
from tests.public_names import PACKAGES, homes_of, stub_of, stub_path
from tests.shape import private_imports
from tests.sources import CORE, FILES, PLUGINS, TESTING, package_files, parsed, where

if TYPE_CHECKING:
    from types import ModuleType

each_package = pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
each_plugin = pytest.mark.parametrize(
    "plugin", [path for path in PLUGINS if path not in {FILES, TESTING}], ids=lambda path: path.name
)

# Where the classes of a public room are to be had.
PUBLIC_ROOMS = {
    "errors": prsm_core,
    "interfaces": prsm_core,
    "domain": prsm_core,
    "kit": prsm_core.kit,
}
# Contracts between the engine and a store, of no use to other plugins.
PRIVATE_VALUES = {
    "prsm_core.domain.budgets",
    "prsm_core.domain.changes",
    "prsm_core.domain.ids",
    "prsm_core.domain.notes",
    "prsm_core.domain.record",
    "prsm_core.domain.projection",
    "prsm_core.domain.rows",
    "prsm_core.domain.sessions",
    "prsm_core.domain.steps",
    "prsm_core.domain.structs",
    "prsm_core.domain.writes",
    "prsm_core.kit.background",
    "prsm_core.kit.clocks",
    "prsm_core.kit.exhaustion",
    "prsm_core.kit.local_socket",
    "prsm_core.kit.regular",
}
# Of modules of which plugins need the rest. No hook, handle or host takes, gives or raises these.
PRIVATE_NAMES = {
    *("AgentTimeoutError", "BudgetExceededError", "DeadlockDetectedError", "ExpertNotFoundError"),
    *("FencedError", "MaxDepthExceededError", "ToolCallTimeoutError"),
    *("AgentToolCall", "CompactionResult", "Effect", "TurnResult"),
    *("ExpertProfile", "Grant", "RoutedMessage", "SessionInfo"),
    *("OpenCalls", "OpenTurn", "Picture", "SessionLog", "TakenNames"),
    # A plugin meets these by their attributes: it has no need to make one.
    *("AbortSignal", "TokenBudget"),
    # The base of what is registered.
    "Registration",
    # The groups of an AppHandle.
    *("Agents", "Changes", "Requests", "Runs", "Sessions", "Snapshots"),
}


def _is_private(module: str) -> bool:
    return any(f"{module}.".startswith(f"{name}.") for name in PRIVATE_VALUES)


def _init(package: ModuleType) -> Path:
    return Path(str(package.__file__))


@each_package
def test_type_checkers_see_exactly_what_is_imported_lazily(package):
    """If not, run `python tests/public_names.py --sync`."""
    assert stub_path(package).read_text(encoding="utf-8") == stub_of(package)


@pytest.mark.parametrize(
    ("package", "name"),
    [pytest.param(package, name, id=name) for package in PACKAGES for name in package.__all__],
)
def test_a_public_name_comes_from_its_home(package, name):
    home = importlib.import_module(homes_of(package)[name])
    assert getattr(package, name) is getattr(home, name)


@each_package
def test_no_public_name_is_that_of_a_module_beside_it(package):
    """Importing the module would put it in the place of what is meant."""
    folder = _init(package).parent
    modules = {path.stem for path in folder.iterdir()}
    assert not modules & set(package.__all__)


def test_a_public_name_of_the_core_has_one_room():
    rooms: dict[str, list[str]] = {}
    for room in (*PACKAGES[:-1], prsm_core.executors):
        for name in room.__all__:
            rooms.setdefault(name, []).append(room.__name__)
    assert not {name: where for name, where in rooms.items() if len(where) > 1}


def test_every_contract_is_a_public_name_of_the_package_for_tests():
    contracts = {
        node.name
        for path in (TESTING / TESTING.name).glob("*_contract.py")
        for node in parsed(path).body
        if isinstance(node, ast.ClassDef) and node.name.endswith("Contract")
    }
    assert len(contracts) >= 6
    assert contracts <= set(dir(prsm_testing))


def test_every_public_class_of_the_contract_is_a_public_name():
    missing = []
    for path in package_files():
        module = ".".join(path.relative_to(CORE.parent).with_suffix("").parts)
        room = module.split(".")[1]
        if room not in PUBLIC_ROOMS or _is_private(module) or path.name == "__init__.py":
            continue
        for name, value in vars(importlib.import_module(module)).items():
            if inspect.isclass(value) and value.__module__ == module and not name.startswith("_"):
                names = {*dir(PUBLIC_ROOMS[room]), *dir(prsm_core.files), *dir(prsm_core.terminal)}
                missing += [] if name in names else [name]
    assert set(missing) == PRIVATE_NAMES


@pytest.mark.requirement("C5")
@each_plugin
def test_a_plugin_takes_nothing_but_the_public_names_of_the_core(plugin):
    """Also for type checkers: what ours need, those of others get, wherever it lives."""
    assert not private_imports(plugin / plugin.name)


# What a fake program takes: a module that it imports itself, as docs/plugins.md says.
FAKES = "prsm_testing.faults"
# What tests of ours look at besides: the whole application, or what another party would see.
INSIDE = {
    "prsm_acp": {"app", "builtin", "config", "config.schema", "plugins"},
    "prsm_codex": {"kit.background", "kit.clocks", "kit.environment"},
    "prsm_console": {
        *("domain.usage", "engine.requests", "plugins", "prsm_testing.memory_store"),
        *("domain.events", "terminal.cells", "terminal.foreground"),
    },
    "prsm_demo": {
        *(
            "engine.agents.opening",
            "prsm_testing.resume_contract",
            "prsm_testing.resume_contract",
        ),
    },
    "prsm_gemini": {"engine.processes.table"},
    "prsm_mcp": {
        *("app", "builtin", "config", "config.schema", "plugins", "engine.tools.table"),
        *("cli.control", "cli.ledger", "engine.control.session_lock"),
        *("kit.clocks", "kit.local_socket"),
    },
    "prsm_policy": {
        *("builtin", "plugins"),
        *("config", "config.paths", "config.policy_file", "config.trust", "kit.environment"),
        *("permissions.kept_names", "permissions.results", "permissions.secret_shapes"),
    },
    "prsm_protocols": {
        *("config", "domain.labels", "domain.writes", "engine.tools.table", "permissions"),
    },
    "prsm_sandbox": {
        *("config.schema", "domain.boxes", "kit.clocks"),
        *("engine.processes.executor", "engine.processes.launcher"),
        *("engine.processes.table", "engine.tools.shell"),
        *("executors", "prsm_testing.doubles"),
    },
    "prsm_tui": {
        *("app", "builtin", "config", "config.schema", "plugins"),
        *("hub", "cli.errands", "cli.launch", "cli.opening", "engine.processes.launcher"),
    },
}
UNNAMED = {"ANSWER_SECONDS", "COMMAND", "Conversation"}


@pytest.mark.requirement("C5")
@each_plugin
def test_the_tests_of_a_plugin_need_nothing_that_others_lack(plugin):
    """Wherever they take a name from, it is one of the public ones."""
    inside = {
        module if module.startswith("prsm_") else f"prsm_core.{module}"
        for module in INSIDE.get(plugin.name, ())
    }
    public = {name for package in PACKAGES for name in package.__all__}
    public |= UNNAMED
    strange = [
        f"{where(path, node)} {module}:{name}"
        for path in sorted((plugin / "tests").rglob("*.py"))
        for node, module, name in imports_of(path, "prsm_core", "prsm_testing")
        if module != FAKES and module not in inside and name not in public
    ]
    assert not strange


def _is_text(node: ast.stmt) -> bool:
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _described(module: str) -> set[str]:
    """Return the names of a module that have a docstring; a constant's is the text below it."""
    body = parsed(CORE.joinpath(*module.split(".")[1:]).with_suffix(".py")).body
    found = {
        node.name
        for node in body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and ast.get_docstring(node)
    }
    for node, below in pairwise(body):
        if isinstance(node, ast.Assign) and _is_text(below):
            found |= {ast.unparse(target) for target in node.targets}
    return found


@pytest.mark.parametrize(
    "package",
    PACKAGES[:-1],
    ids=lambda each: each.__name__,
)
def test_every_public_name_says_what_it_is(package):
    homes = homes_of(package)
    assert not [name for name, home in homes.items() if name not in _described(home)]


@each_package
@pytest.mark.parametrize("name", ["Nope", "agentstate", "_HOMES_"])
def test_an_unknown_name_is_an_attribute_error(package, name):
    with pytest.raises(AttributeError, match=f"'{package.__name__}' has no attribute '{name}'"):
        getattr(package, name)


@each_package
def test_dir_lists_the_public_names(package):
    assert dir(package) == package.__all__


def test_every_all_is_sorted_and_names_what_exists():
    wrong = []
    for path in package_files():
        for node in parsed(path).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                names = ast.literal_eval(node.value)
                if list(names) != sorted(set(names)):
                    wrong.append(where(path, node))
    assert not wrong


# Records whose fields are read by no name, and who reads them.
READ_OTHERWISE = {
    "CompactionResult": "the ledger: a row has all of them",
    "TokenUsage": "the ledger: the row of a turn has all of them",
    "PeerMessage": "tools of other plugins, which may need to know who wrote, and when",
}


def test_every_field_of_a_public_record_is_read_by_something_that_ships():
    """A name that nothing reads misleads who sets it."""
    trees = [(path, parsed(path)) for path in package_files()]
    read = {
        node.attr
        for _, tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    rooms = [CORE / name for name in ("domain", "interfaces")]
    unread = {
        f"{record.name}.{line.target.id}"
        for path, tree in trees
        if any(path.is_relative_to(room) for room in rooms)
        for record in ast.walk(tree)
        if isinstance(record, ast.ClassDef) and record.name not in READ_OTHERWISE
        for line in record.body
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
        if line.target.id not in read
    }
    assert unread == set()
