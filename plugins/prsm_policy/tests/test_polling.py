"""What only reads, and what only looks something up, by the text of a command alone."""

from __future__ import annotations

import os

import pytest
from prsm_policy import by_text
from prsm_policy.by_text import looks_up, only_reads

pytestmark = pytest.mark.requirement("E16")

READS = [
    "ls -la src",
    "cat /etc/hosts ../other/*.py",
    "grep -rn x . | head -5",
    "git status && git diff --stat",
    "cd src && ls",
    "find . -name '*.py'",
    "sed -n 1,20p a.py",
    "cat ~/notes.txt 2>/dev/null",
]
LOOKS = [
    "curl -s localhost/health",
    "curl -sS -o /dev/null -w '%{http_code}' http://localhost:8080/",
    "curl -s localhost | head -1",
    "sleep 30",
    "sleep 30 && gh run view 12",
    "gh pr checks 7",
    "docker ps -a",
    "docker compose logs web",
    "kubectl get pods -n x",
    "systemctl status nginx",
    "git ls-remote origin",
    "npm view left-pad",
    "ss -ltn",
    "wget -qO- localhost",
]
DO_MORE = [
    "make",
    "pytest -q",
    "npm test",
    "touch x",
    "cat a > b",
    "find . -delete",
    "sed -i s/a/b/ x",
    "ls; rm x",
    "$(make)",
    "curl -d x=1 localhost",
    "curl -X POST localhost",
    "curl -XDELETE localhost",
    "curl --request PUT localhost",
    "curl -o file localhost",
    "curl -O localhost/x",
    "curl -F a=b localhost",
    "curl --data-binary @x localhost",
    "docker run x",
    "docker rm x",
    "gh pr merge 7",
    "kubectl delete pod x",
    "systemctl restart nginx",
    "sleep 30 && make",
    "git fetch",
    "sleep 1 > x",
    "ls '",
    "",
]


@pytest.mark.parametrize("command", READS)
def test_what_only_reads_is_known_wherever_it_reads(command):
    assert only_reads(command)
    assert looks_up(command)


@pytest.mark.parametrize("command", LOOKS)
def test_what_looks_at_something_that_runs_may_be_looked_at_again(command):
    assert looks_up(command)


@pytest.mark.parametrize("command", DO_MORE)
def test_what_may_do_more_is_neither(command):
    assert not only_reads(command)
    assert not looks_up(command)


@pytest.mark.parametrize("command", [*READS, *LOOKS, *DO_MORE])
def test_nobody_looks_at_the_disk(command, monkeypatch):
    def look(*_args, **_options):
        raise AssertionError("it looked at the disk")

    for name in ("stat", "lstat", "readlink", "listdir", "scandir", "open"):
        monkeypatch.setattr(os, name, look)
    monkeypatch.setattr("os.path.realpath", look)
    by_text.only_reads.cache_clear()
    by_text.looks_up.cache_clear()
    only_reads(command)
    looks_up(command)
