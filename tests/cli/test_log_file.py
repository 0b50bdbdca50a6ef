"""The log of a run: private, bounded, shared by processes, and without secrets."""

import json
import logging
import os
import stat
import subprocess
import sys
from contextlib import closing

import pytest

from prsm_core.cli.logs import (
    KEPT,
    NAME,
    FullFormatter,
    PrivateLogFile,
    configure_logging,
    log_to_file,
)

SECRET = "correct-horse-battery-staple"  # noqa: S105 - of no one

TALKER = f"""
import logging
from contextlib import asynccontextmanager
from prsm_core import (
    AssistantMessage, Provider, ProviderSession, ProviderSpec, ProviderStatus, StopReason,
    TurnEnded, hookimpl,
)

log = logging.getLogger("prsm_talker")

class Session(ProviderSession):
    async def run_turn(self, context):
        if "crash" in context.current_message.content:
            raise RuntimeError("cannot log in with {SECRET}")
        yield AssistantMessage("the key is {SECRET}")
        yield TurnEnded(StopReason.END_TURN)

class Talker(Provider):
    def __init__(self, settings, services):
        pass

    async def probe(self):
        log.warning("warned about %s", "{SECRET}")
        log.info("informed")
        log.debug("debugged")
        logging.getLogger("library").info("chatted")
        return ProviderStatus(available=True)

    @asynccontextmanager
    async def open_session(self, request, host):
        yield Session()

@hookimpl
def prsm_providers():
    yield ProviderSpec(name="talker", summary="", factory=Talker)
"""


@pytest.fixture
def log(tmp_path, puppets, monkeypatch):
    """Where the log of a run lies; the provider says its key, which the settings name."""
    (tmp_path / "site" / "puppet_plugin.py").write_text(TALKER)
    monkeypatch.setenv("PRSM__PROVIDERS__TALKER__API_KEY_ENV", "TALKER_KEY")
    monkeypatch.setenv("TALKER_KEY", SECRET)
    return tmp_path / "home" / "state" / "logs" / NAME


def test_a_run_is_logged_for_its_owner_only(prsm_process, log):
    assert prsm_process("run", "say").code == 0
    text = log.read_text()
    assert "INFO prsm.cli: a run begins in " in text
    assert "INFO prsm_talker: informed\n" in text
    assert "INFO prsm.cli: the run ends\n" in text
    assert "debugged" not in text
    assert "chatted" not in text
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700


def test_warnings_still_go_to_stderr_and_nothing_less_does(prsm_process, log):
    err = prsm_process("run", "say").err
    assert "prsm: warning: warned about [redacted]" in err
    assert "informed" not in err


def test_debug_records_are_shown_and_logged_on_request(prsm_process, log):
    err = prsm_process("--debug", "run", "say").err
    assert "prsm: DEBUG: prsm_talker: debugged" in err
    assert "providers.talker.api_key_env is set by PRSM__PROVIDERS" in err
    assert "chatted" not in err
    assert "DEBUG prsm_talker: debugged" in log.read_text()


def test_no_secret_is_in_the_log_on_stderr_or_in_the_events(prsm_process, log):
    said = prsm_process("--debug", "run", "say", "--json")
    crashed = prsm_process("--debug", "run", "crash", "--json")
    events = [json.loads(line) for line in said.out.splitlines()]
    assert "the key is [redacted]" in [event.get("text") for event in events]
    for text in (said.out, said.err, crashed.out, log.read_text()):
        assert "[redacted]" in text
        assert SECRET not in text


def test_the_error_that_ends_a_run_is_logged_with_its_traceback(prsm_process, log, monkeypatch):
    monkeypatch.setenv("PRSM_PLUGINS", "")
    monkeypatch.delenv("PRSM__PROVIDERS__TALKER__API_KEY_ENV")
    done = prsm_process("run", "say")
    assert (done.code, "Traceback" in done.err) == (3, False)
    text = log.read_text()
    assert "ERROR prsm.cli: ended by an error\n  Traceback" in text
    assert "no provider is installed" in text
    records = [line for line in text.splitlines() if not line.startswith(" ")]
    assert all(line[:4].isdigit() for line in records)


def test_commands_that_only_look_write_no_log(prsm_process, log):
    assert prsm_process("providers").code == 0
    assert not log.exists()


def test_a_log_that_cannot_be_written_is_told_once_and_stops_nothing(prsm_process, log):
    log.mkdir(parents=True, mode=0o700)
    done = prsm_process("run", "say")
    assert done.code == 0
    assert done.err.count(f"{log} cannot be written") == 1


def record(text):
    return logging.LogRecord("prsm.x", logging.INFO, "f.py", 1, text, (), None)


def test_the_log_never_holds_more_than_its_bound(tmp_path):
    with closing(PrivateLogFile(tmp_path, FullFormatter("%(message)s"), 1000)) as handler:
        for number in range(500):
            handler.emit(record(f"{number:03} {'x' * 60}"))
    files = sorted(path.name for path in tmp_path.glob(f"{NAME}*") if path.suffix != ".lock")
    assert files == [NAME, *(f"{NAME}.{number}" for number in range(1, KEPT + 1))]
    for name in files:
        assert (tmp_path / name).stat().st_size <= 1000
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert (tmp_path / NAME).read_text().splitlines()[-1].startswith("499 ")


WRITER = """
import logging, sys
from pathlib import Path
from contextlib import closing
from prsm_core.cli.logs import PrivateLogFile
from prsm_core.cli.logs import FullFormatter
with closing(PrivateLogFile(Path(sys.argv[1]), FullFormatter("%(message)s"), 20000)) as handler:
    for number in range(300):
        text = f"{sys.argv[2]} {number:03} {'x' * 60}"
        handler.emit(logging.LogRecord("prsm", 20, "", 1, text, (), None))
"""


def test_processes_that_write_together_lose_no_line(tmp_path):
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), name]) for name in "abc"
    ]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    # 3 * 300 lines of 67 bytes are just over three files; one more is kept.
    lines = [
        line
        for path in tmp_path.glob(f"{NAME}*")
        if path.suffix != ".lock"
        for line in path.read_text().splitlines()
    ]
    expected = [f"{name} {number:03} {'x' * 60}" for name in "abc" for number in range(300)]
    assert sorted(lines) == expected


def test_a_file_that_was_renamed_by_another_is_followed(tmp_path):
    with closing(PrivateLogFile(tmp_path, FullFormatter("%(message)s"))) as handler:
        handler.emit(record("first"))
        (tmp_path / NAME).rename(tmp_path / "aside")
        handler.emit(record("second"))
    assert (tmp_path / "aside").read_text() == "first\n"
    assert (tmp_path / NAME).read_text() == "second\n"


def test_records_of_a_block_go_to_the_file_and_those_after_it_do_not(tmp_path):
    configure_logging(debug=False)
    logger, level = logging.getLogger("prsm.test"), logging.getLogger().level
    with log_to_file(tmp_path / "logs", str.upper):
        logger.info("inside")
    logger.info("outside")
    text = (tmp_path / "logs" / NAME).read_text()
    assert f"{os.getpid()} INFO PRSM.TEST: INSIDE\n" in text
    assert "OUTSIDE" not in text
    assert logging.getLogger().level == level


@pytest.mark.parametrize(
    ("error", "told"),
    [(KeyboardInterrupt(), "INFO prsm.cli: interrupted\n"), (ValueError("why"), "ValueError: why")],
)
def test_what_ends_a_block_is_told(tmp_path, error, told):
    with pytest.raises(type(error)), log_to_file(tmp_path, str):
        raise error
    text = (tmp_path / NAME).read_text()
    assert told in text
    assert ("Traceback" in text) == isinstance(error, Exception)


def test_a_disk_that_is_full_at_the_end_does_not_hide_why_the_run_ended(tmp_path, capsys):
    (tmp_path / NAME).symlink_to("/dev/full")
    with pytest.raises(ValueError, match="why"), log_to_file(tmp_path, str):
        raise ValueError("why")
    assert capsys.readouterr().err.count("prsm.log cannot be written: No space left on device") == 1
