"""The table of misbehaviours, the faults that play it, and what they are told."""

from __future__ import annotations

from prsm_testing.faults import Marks, shared_faults, times
from prsm_testing.misbehaviour_contract import TABLE

# Faults that only the fake can play: they are about what its program speaks.
OF_THE_LANGUAGE = {
    "a_command_never_ends",
    "broken_bytes",
    "busy_for_ever",
    "busy_twice",
    "echoes_secrets",
    "garbage",
    "hears_no_more",
    "mad_usage",
    "no_access",
    "no_room",
    "says_all_twice",
    "says_it_in_disorder",
    "transient_error",
}


def test_every_fault_of_the_table_is_shared_or_of_the_fakes_language():
    shared = shared_faults(lambda turn: turn, lambda *_: None)
    assert TABLE.keys() == shared.keys() | OF_THE_LANGUAGE
    assert not shared.keys() & OF_THE_LANGUAGE


def test_every_fault_strikes_at_a_known_point():
    points = {
        point
        for fault in shared_faults(lambda turn: turn, lambda *_: None).values()
        for point in fault
    }
    assert points == {"version", "start", "turn", "end"}


def test_orders_are_taken_out_of_the_arguments(tmp_path):
    arguments = ["--fault=silence", f"--marks={tmp_path}", "serve", "--fault=none"]
    assert Marks.take(arguments) == "silence"
    assert arguments == ["serve", "--fault=none"]
    assert [times("died"), times("died"), times("other")] == [1, 2, 1]


def test_without_orders_nothing_goes_wrong():
    arguments = ["serve"]
    assert Marks.take(arguments) is None
    assert arguments == ["serve"]


def test_a_row_is_called_by_its_fault():
    assert {str(row): row for row in TABLE.values()} == TABLE
