"""Log records are one line for a person, and complete with --debug."""

import logging

import pytest

from prsm_core.cli.logs import BriefFormatter


def record(message, error=None):
    exc_info = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord("prsm.x", logging.ERROR, "f.py", 1, message, (), exc_info)


@pytest.mark.parametrize(
    ("message", "error", "line"),
    [
        ("plain", None, "prsm: error: plain"),
        ("failed", ValueError("why"), "prsm: error: failed: ValueError: why"),
        ("a\x1b[2Jb", None, "prsm: error: a\\x1b[2Jb"),
        ("first\nsecond", None, "prsm: error: first…"),
    ],
)
def test_a_record_is_one_harmless_line(message, error, line):
    assert BriefFormatter().format(record(message, error)) == line


def test_what_plugins_do_is_traced_on_request(prsm_process, monkeypatch):
    assert prsm_process("plugins").err == ""
    monkeypatch.setenv("PRSM_TRACE_PLUGINS", "1")
    assert "prsm: info: builtin (prsm-core" in prsm_process("plugins").err
