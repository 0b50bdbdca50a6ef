"""The size of modules and functions, and what neither sources nor tests may do."""

from __future__ import annotations

import ast
import re
import tokenize
from io import StringIO
from token import COMMENT
from typing import TYPE_CHECKING

import pytest

from tests.sources import CORE, TESTING, calls, dotted, package_files, parsed, suite_files, where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_RULER = re.compile(r"#\s*([-=*~_])\1{2,}|##{2,}")
MAX_FILE = 900
MAX_FUNCTION = 50

# The only modules that may start a process: the engine's own, the shim it starts, the helper that
# runs git, the one that starts another owner of a session, the one that lends a person's editor the
# terminal, which no process of the engine ever has, and the one that an agent starts in the place
# of an MCP server.
_STARTERS = CORE / "engine" / "processes"
STARTERS = (
    *(_STARTERS / f"{n}.py" for n in ("launcher", "reaper_shim")),
    CORE.parent / "plugins/prsm_files/prsm_files/session/git_helper.py",
    CORE.parent / "plugins/prsm_tui/prsm_tui/editor.py",
    CORE.parent / "plugins/prsm_acp/prsm_acp/watch_server.py",
)
_LOOP_CALLS = ("create_subprocess_exec", "create_subprocess_shell", "subprocess_exec")
_OS_CALLS = ("fork", "forkpty", "popen", "posix_spawn", "posix_spawnp", "startfile", "system")


def _starts_process(name: str) -> bool:
    head, _, last = name.rpartition(".")
    family = last.startswith(("exec", "spawn")) and last != "spawn"
    return last in _LOOP_CALLS or (head == "os" and (last in _OS_CALLS or family))


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def _functions(path: Path) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, int]]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, (node.end_lineno or node.lineno) - node.lineno + 1


def test_no_file_is_longer_than_900_lines():
    long = {where(p): n for p in package_files() + suite_files() if (n := _lines(p)) > MAX_FILE}
    assert not long


def test_no_function_is_longer_than_50_lines():
    long = {
        f"{where(path, node)} {node.name}": size
        for path in package_files() + suite_files()
        for node, size in _functions(path)
        if size > MAX_FUNCTION
    }
    assert not long


def test_every_module_says_in_its_first_line_what_it_owns():
    silent = [where(p) for p in package_files() if not ast.get_docstring(parsed(p))]
    assert not silent


def _rulers(text: str) -> list[str]:
    """Return the comments of a text that draw a line, as banners between functions do."""
    tokens = tokenize.generate_tokens(StringIO(text).readline)
    return [each.string for each in tokens if each.type == COMMENT and _RULER.match(each.string)]


def test_no_banner_divides_a_module():
    texts = {where(p): p.read_text(encoding="utf-8") for p in package_files() + suite_files()}
    banners = {path: found for path, text in texts.items() if (found := _rulers(text))}
    assert not banners, "a part that needs a banner is a module of its own"


@pytest.mark.parametrize("line", ["# --- turns ---", "#-----", "#### turns", "# ===== x", "# ***"])
def test_a_banner_is_recognised(line):
    assert _rulers(f"a = 1\n{line}\n") == [line]


@pytest.mark.parametrize("line", ["# - a point", "#: a name", "# --flag is given", "'# --- x'"])
def test_other_comments_are_no_banners(line):
    assert _rulers(f"a = 1\n{line}\n") == []


def test_only_the_engines_process_room_starts_processes():
    starters = [
        f"{where(path, call)} {name}"
        for path in package_files()
        if path not in STARTERS
        for call, name in calls(path)
        if _starts_process(name)
    ]
    assert not starters


# Whoever else runs a loop has no code of a plugin on it: the simulator plays scripts in time of
# its own, and the model server of tests is a program for itself.
_KIT = TESTING / TESTING.name
RUNNERS = {CORE / "loop" / "run.py", _KIT / "sim" / "world.py", _KIT / "model_server.py"}
_RUNS = ("asyncio.run", "asyncio.Runner", "asyncio.new_event_loop", "anyio.run")


def test_only_the_room_of_the_loop_runs_one():
    """So each is watched, goes on whatever plugins do, and is left within a bound."""
    runners = [
        f"{where(path, call)} {name}"
        for path in package_files()
        if path not in RUNNERS
        for call, name in calls(path)
        if name in _RUNS or name.endswith("run_until_complete")
    ]
    assert not runners


@pytest.mark.parametrize("name", ["os.execvp", "os.system", "asyncio.create_subprocess_exec"])
def test_a_call_that_starts_a_process_is_recognised(name):
    assert _starts_process(name)


@pytest.mark.parametrize("name", ["os.getpid", "cursor.execute", "manager.spawn", "fork"])
def test_a_call_that_starts_no_process_is_left_alone(name):
    assert not _starts_process(name)


def test_no_source_suppresses_every_exception():
    broad = [
        where(path, call)
        for path in package_files()
        for call, name in calls(path)
        if name in {"suppress", "contextlib.suppress"}
        and {dotted(argument) for argument in call.args} & {"Exception", "BaseException"}
    ]
    assert not broad


def _sleeps(call: ast.Call, name: str, _: ast.Module) -> bool:
    """time.sleep always; asyncio.sleep with anything but a literal zero is time spent hoping."""
    if name == "time.sleep":
        return True
    literal = call.args[0] if call.args else None
    return name in {"asyncio.sleep", "anyio.sleep"} and (
        isinstance(literal, ast.Constant) and literal.value != 0
    )


def _excuses_nothing(call: ast.Call, name: str, _: ast.Module) -> bool:
    reason = any(keyword.arg == "reason" for keyword in call.keywords)
    if name in {"pytest.mark.skipif", "pytest.mark.xfail"}:
        return not reason
    return name in {"pytest.mark.skip", "pytest.skip", "pytest.xfail"} and not (reason or call.args)


def _mocks(call: ast.Call, name: str, _: ast.Module) -> bool:
    mocks = {"Mock", "MagicMock", "AsyncMock", "create_autospec", "patch"}
    parts = name.split(".")
    return parts[-1] in mocks or "patch" in parts[:-1]


def _patches_prsm(call: ast.Call, name: str, module: ast.Module) -> bool:
    """Whether monkeypatch replaces something of PRSM itself."""
    if name.split(".")[-1] not in {"setattr", "delattr", "setitem", "delitem"} or not call.args:
        return False
    target = call.args[0]
    if isinstance(target, ast.Constant):
        return str(target.value).startswith("prsm_")
    return name.startswith("monkeypatch.") and dotted(target).split(".")[0] in _imported(module)


def _imported(module: ast.Module) -> set[str]:
    """Return the names that a module binds by importing something of PRSM."""
    names: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("prsm_"):
            names.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            names.update(
                alias.asname or alias.name.split(".")[0]
                for alias in node.names
                if alias.name.startswith("prsm_")
            )
    return names


BANNED: dict[str, Callable[[ast.Call, str, ast.Module], bool]] = {
    "sleeps instead of waiting for a condition with a deadline": _sleeps,
    "skips or expects a failure without a reason": _excuses_nothing,
    "uses a mock library": _mocks,
    "patches what it should test": _patches_prsm,
}


@pytest.mark.parametrize("pattern", BANNED)
def test_no_test(pattern):
    found = [
        f"{where(path, call)} {name}"
        for path in suite_files()
        for call, name in calls(path)
        if BANNED[pattern](call, name, parsed(path))
    ]
    assert not found, f"a test {pattern}: {found}"


def test_no_test_is_skipped_by_a_bare_mark():
    bare = [
        where(path, node)
        for path in suite_files()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for decorator in node.decorator_list
        if dotted(decorator) in {"pytest.mark.skip", "pytest.mark.xfail"}
    ]
    assert not bare


@pytest.mark.parametrize(
    ("source", "pattern"),
    [
        ("time.sleep(0)", _sleeps),
        ("asyncio.sleep(0.01)", _sleeps),
        ("pytest.skip()", _excuses_nothing),
        ("pytest.mark.skipif(True)", _excuses_nothing),
        ("mock.patch.object(thing, 'name')", _mocks),
        ("MagicMock()", _mocks),
        ("monkeypatch.setattr('prsm_core.app.build', None)", _patches_prsm),
        ("from prsm_core import app\nmonkeypatch.setattr(app, 'build', None)", _patches_prsm),
        ("import prsm_core.app\nmonkeypatch.setattr(prsm_core.app, 'build', 1)", _patches_prsm),
    ],
)
def test_the_patterns_find_what_they_forbid(source, pattern):
    module = ast.parse(source)
    call = next(node for node in ast.walk(module) if isinstance(node, ast.Call))
    assert pattern(call, dotted(call.func), module)


@pytest.mark.parametrize(
    ("source", "pattern"),
    [
        ("asyncio.sleep(0)", _sleeps),
        ("clock.sleep(5)", _sleeps),
        ("pytest.skip('npm is missing')", _excuses_nothing),
        ("session.apply_patch()", _mocks),
        ("monkeypatch.setenv('PRSM_HOME', 'x')", _patches_prsm),
        ("monkeypatch.setattr(sys, 'argv', [])", _patches_prsm),
    ],
)
def test_the_patterns_leave_honest_code_alone(source, pattern):
    module = ast.parse(source)
    call = next(node for node in ast.walk(module) if isinstance(node, ast.Call))
    assert not pattern(call, dotted(call.func), module)
