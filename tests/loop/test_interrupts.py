"""Ctrl-C is the signal; a KeyboardInterrupt that code only raises is an error of that code."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest

from prsm_core.errors import PluginError
from prsm_core.loop.interrupts import is_interrupt, noting_interrupts, raise_interrupt
from prsm_core.loop.run import run_to_end
from prsm_core.plugins.guard import Guest, PluginFaultError
from prsm_core.plugins.objects import load_object
from tests.site_folder import Site

pytestmark = pytest.mark.requirement("C5", "F9")

GUEST = Guest("event sink", "bad")
SLOW = {"PRSM_PLUGIN_TIMEOUT": "60"}  # the machine may be busy


@pytest.fixture
def noting():
    """Note SIGINT, as the command does."""
    with noting_interrupts(raise_interrupt):
        yield


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def made_up() -> None:
    raise KeyboardInterrupt


def in_a_group() -> None:
    raise BaseExceptionGroup("g", [RuntimeError("x"), KeyboardInterrupt()])


@pytest.mark.parametrize("deed", [made_up, in_a_group])
def test_one_that_a_plugin_raises_is_its_failure(noting, deed):
    failed = pytest.raises(PluginFaultError, match="event sink bad failed in write: ")
    with failed, GUEST.calling("write"):
        deed()


def test_a_signal_is_ctrl_c_in_the_middle_of_a_plugins_code(noting):
    with pytest.raises(KeyboardInterrupt), GUEST.calling("write"):
        press_ctrl_c()


def pressed_in_a_group() -> None:
    try:
        press_ctrl_c()
    except KeyboardInterrupt as error:
        raise BaseExceptionGroup("g", [error]) from None


def test_a_signal_is_ctrl_c_also_in_a_group(noting):
    with pytest.raises(BaseExceptionGroup) as raised, GUEST.calling("write"):
        pressed_in_a_group()
    assert is_interrupt(raised.value)


def test_where_python_itself_handles_the_signal_nobody_can_tell():
    with pytest.raises(KeyboardInterrupt), GUEST.calling("write"):
        made_up()


async def _in_task(deed):
    return await GUEST.within(5.0, "write", deed)


async def _raises():
    made_up()


def test_one_of_a_call_in_a_task_of_its_own_is_its_failure_and_the_loop_goes_on():
    async def main():
        with pytest.raises(PluginFaultError, match="KeyboardInterrupt"):
            await _in_task(_raises)
        with pytest.raises(PluginFaultError, match="KeyboardInterrupt"):
            await _in_task(lambda: asyncio.to_thread(made_up))
        return "went on"

    assert run_to_end(main()) == "went on"


def test_one_of_a_plugins_own_task_or_callback_ends_nothing_but_it(caplog):
    async def main():
        loop = asyncio.get_running_loop()
        loop.call_soon(made_up)
        own = loop.create_task(_raises())
        await asyncio.wait([own])
        assert isinstance(own.exception(), KeyboardInterrupt)
        return "went on"

    assert run_to_end(main()) == "went on"
    assert caplog.text.count("raised KeyboardInterrupt: nothing ends but it") == 2


def test_one_signal_cancels_what_runs_and_is_ctrl_c_at_the_end():
    ended = []

    async def main():
        try:
            press_ctrl_c()
            await asyncio.Event().wait()
        finally:
            ended.append("in order")

    with pytest.raises(KeyboardInterrupt):
        run_to_end(main())
    assert ended == ["in order"]


def test_a_second_signal_is_ctrl_c_wherever_it_hits():
    async def main():
        press_ctrl_c()
        with GUEST.calling("write"):
            press_ctrl_c()
        return "went on"

    with pytest.raises(KeyboardInterrupt):
        run_to_end(main())


def test_a_signal_of_an_earlier_command_makes_nothing_of_the_next_one_ctrl_c():
    with pytest.raises(KeyboardInterrupt), noting_interrupts(raise_interrupt):
        press_ctrl_c()
    again = noting_interrupts(raise_interrupt)
    with again, pytest.raises(PluginFaultError), GUEST.calling("write"):
        made_up()


def test_the_handler_before_is_there_again():
    before = signal.getsignal(signal.SIGINT)
    with noting_interrupts(raise_interrupt):
        assert signal.getsignal(signal.SIGINT) is raise_interrupt
        assert run_to_end(asyncio.sleep(0, "done")) == "done"
        assert signal.getsignal(signal.SIGINT) is raise_interrupt
    assert signal.getsignal(signal.SIGINT) is before


def test_in_another_thread_none_is_ever_ctrl_c(noting):
    found = []

    def run():
        try:
            with GUEST.calling("write"):
                made_up()
        except (PluginFaultError, KeyboardInterrupt) as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert isinstance(found[0], PluginFaultError)


def test_one_at_the_import_of_a_plugin_keeps_that_plugin_out_only(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    site = Site(tmp_path)
    site.add("cross", "raise KeyboardInterrupt\n")
    site.add("good", "@hookimpl\ndef prsm_frontends():\n    return []\n")
    states = {record.name: (record.state, record.error) for record in site.load(SLOW).records}
    assert states["cross"] == ("broken", "KeyboardInterrupt")
    assert states["good"] == ("active", None)


def test_one_at_the_import_of_an_object_is_its_plugins_failure(noting, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "cross_object.py").write_text("raise KeyboardInterrupt\n")
    with pytest.raises(PluginError, match="plugin bad: cannot import 'cross_object:x': Keyb"):
        load_object("cross_object:x", plugin="bad")
