"""Which results are the same: what differs in times, processes and made-up names only."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.permissions import outcome_of

pytestmark = pytest.mark.requirement("E16")

PIECES = (
    *("1", "1.", "1 ", "1m", "1s ", "1:11", "time ", "Mon ", "2026-11-", "0123abcd-", "pid "),
    *("==1", "a", ".a", "x.a", "tmp", "tmp_", "x /tmp/"),
)
SAME = {
    "duration": ("1 failed in 0.12s", "1 failed in 3.40s"),
    "minutes": ("finished in 1m 2.5s", "finished in 2m 0.1s"),
    "milliseconds": ("took 35 ms", "took 7 ms"),
    "microseconds": ("ran in 12.5µs", "ran in 9.0µs"),
    "go": ("ok  \tpkg\t0.003s", "ok  \tpkg\t0.014s"),
    "bash time": ("real\t0m0.003s", "real\t1m2.114s"),
    "jest": ("Time:        1.234 s, estimated 2 s", "Time:        1.001 s, estimated 3 s"),
    "bare seconds": ("elapsed: 0:00:03", "elapsed: 0:01:17"),
    "iso": ("2026-11-23T01:02:03.456Z up", "2027-01-02T11:12:13.456Z up"),
    "log": ("2026-11-23 01:02:03,123 INFO", "2026-11-23 01:02:04,001 INFO"),
    "date": ("Mon Nov 23 01:26:01 UTC 2026", "Tue Nov 24 13:06:59 UTC 2026"),
    "listing": ("-rw-r--r-- 1 a a 3 Nov 23 01:26 x", "-rw-r--r-- 1 a a 3 Nov  4 21:26 x"),
    "slashes": ("on 23/11/2026", "on 1/12/2026"),
    "epoch": ("at 1732323232.123", "at 1732323999.9"),
    "epoch in ms": ("at 1732323232123", "at 1732323999999"),
    "pid": ("started, PID 1234", "started, PID 98765"),
    "process": ("process 4242 exited", "process 17 exited"),
    "syslog": ("nginx[1234]: hi", "nginx[99]: hi"),
    "sanitizer": ("==4242==ERROR: x", "==777==ERROR: x"),
    "job": ("[1] 12345", "[1] 23456"),
    "killed": ("bash: line 1: 12345 Killed  x", "bash: line 1:   999 Killed  x"),
    "address": ("<Foo object at 0x7f3b2c>", "<Foo object at 0x7f0012ab>"),
    "uuid": (
        "run 7f0012ab-1111-4222-8333-123456789abc",
        "run 00000000-aaaa-4bbb-8ccc-cba987654321",
    ),
    "mktemp": ("wrote /tmp/tmp.aB3dE9xYz1/x", "wrote /tmp/tmp.Qr5tU7vWx9/x"),
    "python": ("no /tmp/tmpab12cd_x.", "no /tmp/tmpzz99qq_y."),
    "pytest": ("in /tmp/pytest-of-me/pytest-3/test_a0", "in /tmp/pytest-of-me/pytest-12/test_a0"),
    "mac": ("/var/folders/ab/cd12/T/x1 gone", "/var/folders/ab/cd12/T/x2 gone"),
    "template": ("again.Xk29aB", "again.q7TrPz"),
    "order": ("a\nb\nc", "c\na\nb"),
    "ends of lines": ("a  \r\n\nb\n", "a\nb"),
}
OTHER = {
    "count": ("3 failed in 0.1s", "2 failed in 0.1s"),
    "status": ("HTTP 503", "HTTP 200"),
    "line": ("a.c:12:34: error: x", "a.c:13:34: error: x"),
    "port": ("listening on 8080", "listening on 8081"),
    "version": ("v1.2.3", "v1.2.4"),
    "size": ("1.5 MB", "2.5 MB"),
    "commit": ("HEAD is 0a1b2c3", "HEAD is 4d5e6f7"),
    "file": ("README.md", "setup.cfg"),
    "twice": ("a", "a\na"),
    "nothing": ("", "0"),
}


def outcome(*texts, error=None):
    return outcome_of(succeeded=error is None, texts=texts, error=error)


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_results_that_differ_in_such_things_are_the_same(one, other):
    assert outcome(one) == outcome(other)


@pytest.mark.parametrize(("one", "other"), OTHER.values(), ids=OTHER)
def test_results_that_say_something_else_are_others(one, other):
    assert outcome(one) != outcome(other)


def test_the_status_belongs_to_the_result():
    codes = [outcome("x"), outcome("x", error="exit code 1"), outcome("x", error="exit code 2")]
    assert len({each.digest for each in codes}) == 3
    assert [each.label for each in codes] == [
        "succeeded",
        "failed with exit code 1",
        "failed with exit code 2",
    ]
    assert outcome("x", error="it broke").label == "failed"


def test_every_shell_tells_the_same_result_in_its_own_way():
    assert outcome("out\nerr\n", error="exit code 3") == outcome("out", "err", error="exit code 3")
    claude = outcome("Exit code 3\nout\nerr", error="Exit code 3 out err")
    assert claude == outcome("out\nerr\n", error="exit code 3")
    assert outcome("(Bash completed with no output)") == outcome("", "") == outcome(None)


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_has_one_outcome_however_it_is_split(one, other):
    assert outcome(f"{one}\n{other}") == outcome(one, other) == outcome(other, one)


@pytest.mark.parametrize("piece", PIECES)
def test_no_text_takes_long(piece):
    """Each character is looked at a few times, not as often as there are others."""
    text = piece * (65_536 // len(piece))
    began = time.process_time()
    outcome(text)
    assert time.process_time() - began < 2
