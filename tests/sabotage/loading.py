"""The table of what a plugin may do wrong while it is loaded: a case is a module and its price.

Each of the modules brings a permission check, or means to. What ends the process at once, as
`os._exit` does, cannot be caught: it is named by `prsm --debug` only, which tells of each plugin
before it is imported.
"""

from __future__ import annotations

from dataclasses import dataclass

CHECK = """
async def refuse(request, context):
    return Deny("no")

@hookimpl
def prsm_permission_checks():
    yield PermissionCheckSpec(name="guard", summary="", priority=1, check=refuse)
"""
IN_HOOK = """
@hookimpl
def prsm_permission_checks():
    {deed}
"""
MISSING = "permission checks are missing"
MAY_BE = "permission checks may be missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """One sabotage.

    Attributes:
        name: What it does.
        code: The module.
        error: What is said of a plugin that is not active; None: it is.
        lost: What is said of its checks.
        told: What is said in a warning that names it.
        entry: The value of its entry point, where it is not the module.
        requires: What its distribution needs.
        files: Files of its metadata that are as given.
        seconds: How long it may take.
    """

    name: str
    code: str = CHECK
    error: str | None = None
    lost: str = ""
    told: str = ""
    entry: str | None = None
    requires: tuple[str, ...] = ()
    files: tuple[tuple[str, bytes], ...] = ()
    seconds: float = 30.0

    def __str__(self) -> str:
        """Return the id of its test."""
        return self.name.replace(" ", "-")


_RAISED = {
    "an error": ("raise RuntimeError('boom')", "RuntimeError: boom"),
    "sys.exit": ("import sys; sys.exit(3)", "SystemExit: 3"),
    "Ctrl-C that nobody pressed": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "GeneratorExit": ("raise GeneratorExit", "GeneratorExit"),
    "a cancellation": ("import asyncio; raise asyncio.CancelledError", "CancelledError"),
    "StopIteration": ("raise StopIteration", "StopIteration"),
    "a time-out": ("raise TimeoutError", "TimeoutError"),
    "no memory": ("raise MemoryError", "MemoryError"),
    "a missing package": ("import no_such_package_here", "No module named"),
    "a missing name": ("from prsm_core import NoSuchName", "cannot import name 'NoSuchName'"),
    "a recursion": ("def f(): f()\nf()", "RecursionError"),
    "a group": ("raise BaseExceptionGroup('g', [SystemExit(1)])", "BaseExceptionGroup: g"),
    "an error without words": (
        "class Bad(Exception):\n    def __str__(self): raise RuntimeError\nraise Bad",
        "Bad",
    ),
    "an error of no sense": ("raise type('Odd', (BaseException,), {})", "Odd"),
    "a failed assertion": ("assert False, 'never'", "AssertionError: never"),
}
RAISES = [
    Loading(name=f"its import raises {name}", code=f"{deed}\n{CHECK}", error=told, lost=MAY_BE)
    for name, (deed, told) in _RAISED.items()
] + [
    Loading(
        name=f"its hook raises {name}",
        code=IN_HOOK.format(deed=deed.replace("\n", "\n    ")),
        error=told,
        lost=MISSING,
    )
    for name, (deed, told) in _RAISED.items()
]

_LATE = "did not answer within"
_ENDLESS = {
    "sleeps": "import threading; threading.Event().wait(3600)",
    "waits for a lock": "import threading; l = threading.Lock(); l.acquire(); l.acquire()",
    "waits for a pipe": "import os; r, w = os.pipe(); os.read(r, 1)",
    "runs a loop": "import asyncio; asyncio.new_event_loop().run_forever()",
    "never ends": "while True: __import__('time').sleep(0)",
    "swallows everything": "while True:\n    try:\n        __import__('time').sleep(60)\n"
    "    except BaseException:\n        pass",
}
HANGS = [
    Loading(
        name=f"its import {name}",
        code=f"{deed}\n{CHECK}",
        error=_LATE,
        lost=MAY_BE,
        seconds=0.3,
    )
    for name, deed in _ENDLESS.items()
] + [
    Loading(
        name=f"its hook {name}",
        code=IN_HOOK.format(deed=deed.replace("\n", "\n    ")),
        error=_LATE,
        lost=MISSING,
        seconds=1.5,  # its import comes before
    )
    for name, deed in _ENDLESS.items()
]


def _changes(deed: str) -> str:
    return f"import asyncio, io, logging, os, signal, sys, threading\n{deed}\n{CHECK}"


DISTURBS = [
    Loading(name=f"it changes {what}", code=_changes(deed), told=what)
    for what, deed in {
        "sys.stdout": "sys.stdout = io.StringIO()",
        "sys.stderr": "sys.stderr = io.StringIO()",
        "sys.stdin": "sys.stdin = io.StringIO()",
        "sys.excepthook": "sys.excepthook = print",
        "sys.unraisablehook": "sys.unraisablehook = print",
        "threading.excepthook": "threading.excepthook = print",
        "the policy of event loops": (
            "asyncio.set_event_loop_policy("
            "type('P', (asyncio.DefaultEventLoopPolicy,), {'new_event_loop': None})())"
        ),
        "the current folder": "os.chdir('/')",
        "the umask": "os.umask(0)",
        "sys.setrecursionlimit": "sys.setrecursionlimit(sys.getrecursionlimit() + 77)",
        "logging.disable": "logging.disable(logging.CRITICAL)",
        "the level of all logging": "logging.root.setLevel(1)",
        "the handlers of all logging": "logging.root.addHandler(logging.NullHandler())",
    }.items()
] + [
    Loading(name=f"it prints by {how}", code=f"{deed}\n{CHECK}", told="LOUD")
    for how, deed in {
        "print": "print('LOUD')",
        "the descriptor": "import os; os.write(1, b'LOUD')",
        "a program": "import subprocess; subprocess.run(['echo', 'LOUD'])",
    }.items()
]
DISTURBS += [
    Loading(
        name="it sets a handler of a signal",
        code=_changes("signal.signal(signal.SIGINT, signal.SIG_IGN)"),
        error="ValueError: signal only works in main thread",
        lost=MAY_BE,
    ),
    Loading(
        name="it starts a thread that never ends",
        code=f"import threading\nthreading.Thread(target=go.wait).start()\n{CHECK}",
    ),
]

_PROVIDER = "@hookimpl\ndef prsm_providers():\n    {}\n"
WRONG = [
    Loading(name="it has no hook", code="x = 1\n", error="implements no hook"),
    Loading(
        name="its hook is not marked",
        code=CHECK.replace("@hookimpl\n", ""),
        error="prsm_permission_checks is not marked",
        lost=MISSING,
    ),
    Loading(
        name="its hook is misspelt",
        code=CHECK.replace("prsm_permission_checks", "prsm_permission_check"),
        error="prsm_permission_check",
        lost=MISSING,
    ),
    Loading(
        name="its hook takes an argument too many",
        code=CHECK.replace("checks()", "checks(app)"),
        error="app",
        lost=MISSING,
    ),
    Loading(
        name="its hook is async",
        code=CHECK.replace("@hookimpl\ndef", "@hookimpl\nasync def").replace("yield", "return"),
        error="is async",
        lost=MISSING,
    ),
    Loading(
        name="its hook is a wrapper",
        code=CHECK.replace("@hookimpl", "@hookimpl(wrapper=True)"),
        error="wrapper",
        lost=MISSING,
    ),
    Loading(
        name="its hook gives nothing",
        code=IN_HOOK.format(deed="return None"),
        error="not iterable",
        lost=MISSING,
    ),
    Loading(
        name="its hook gives one record",
        code=CHECK.replace("yield", "return"),
        error="not iterable",
        lost=MISSING,
    ),
    Loading(
        name="its hook gives a dict",
        code=IN_HOOK.format(deed="yield {'name': 'guard'}"),
        error="gave a dict, not a PermissionCheckSpec",
        lost=MISSING,
    ),
    Loading(
        name="its check has no priority",
        code=CHECK.replace("priority=1", "priority='high'"),
        error="priority",
        lost=MISSING,
    ),
    Loading(
        name="its check has no such field",
        code=CHECK.replace("priority=1", "priority=1, colour='red'"),
        error="colour",
        lost=MISSING,
    ),
    Loading(
        name="its check is of a hook for providers",
        code=CHECK.replace("prsm_permission_checks", "prsm_providers"),
        error="gave a PermissionCheckSpec, not a ProviderSpec",
        lost=MISSING,
    ),
    Loading(
        name="its check is there twice",
        code=CHECK + CHECK.splitlines()[-1] + "\n",
        error="registered twice",
        lost=MISSING,
    ),
    Loading(
        name="a hook beside its check fails",
        code=CHECK + _PROVIDER.format("raise RuntimeError('boom')"),
        error="RuntimeError: boom",
        lost=MISSING,
    ),
    Loading(
        name="it fails after the first record",
        code=CHECK + "    raise RuntimeError('boom')\n",
        error="RuntimeError: boom",
        lost=MISSING,
    ),
]

PACKAGED = [
    Loading(
        name="its module is not there",
        entry="no_such_module_of_ours",
        error="No module named",
        lost=MAY_BE,
    ),
    Loading(
        name="its object is not there",
        entry="{module}:nothing",
        error="no attribute 'nothing'",
        lost=MAY_BE,
    ),
    Loading(
        name="its entry point is no place",
        entry="not a module!",
        error="'not a module!'",
        lost=MAY_BE,
    ),
    Loading(name="its entry point is empty", entry="", error="''", lost=MAY_BE),
    Loading(
        name="it is for a later core",
        requires=("prsm-core>=9",),
        error="needs prsm-core >=9",
        lost=MAY_BE,
    ),
    Loading(
        name="it is for an earlier core",
        requires=("prsm-core<0.0.1",),
        error="needs prsm-core <0.0.1",
        lost=MAY_BE,
    ),
    Loading(name="its syntax is wrong", code="def (", error="SyntaxError", lost=MAY_BE),
    Loading(name="its bytes are no text", code="x = '\0'\n", error="null bytes", lost=MAY_BE),
    Loading(
        name="its metadata is no text",
        files=(("METADATA", b"\xff\xfe\x00"),),
        error="prsm_bad-1.0.dist-info cannot be read",
        lost=MAY_BE,
    ),
    Loading(name="its metadata is empty", files=(("METADATA", b""),)),
]

TABLE = [*RAISES, *HANGS, *DISTURBS, *WRONG, *PACKAGED]
