"""Versions of a vendor's program: what is read, refused and known to be tested."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_testing.doubles import open_services

from prsm_core.errors import ProviderNotAvailableError
from prsm_core.kit.version import VersionRange, numbers_of, version_in

RANGE = VersionRange(
    program="tool",
    oldest=(2, 1, 9),
    tested_from=(2, 2, 0),
    below=(2, 3, 0),
    install="get tool",
    cure="Get it.",
)
NUMBERS = st.tuples(*[st.integers(0, 999)] * 3)


@given(
    NUMBERS, st.sampled_from(["", "-rc.1", " (Tool)\n"]), st.sampled_from(["", "tool ", "v 7: "])
)
def test_the_numbers_of_a_version_are_found_in_what_a_program_prints(numbers, after, before):
    text = before + ".".join(map(str, numbers)) + after
    assert numbers_of(text) == numbers
    assert str(version_in(text)).startswith(".".join(map(str, numbers)))


@given(NUMBERS)
def test_a_version_is_refused_tested_or_just_unknown(numbers):
    version = ".".join(map(str, numbers))
    assert RANGE.is_tested(version) is ((2, 2, 0) <= numbers < (2, 3, 0))
    if numbers < RANGE.oldest:
        with pytest.raises(ProviderNotAvailableError, match=r"needs 2\.1\.9") as caught:
            RANGE.checked(f"tool {version}")
        assert "get tool" in str(caught.value.hint)
    else:
        assert RANGE.checked(f"tool {version}") == version


def test_what_is_no_version_is_none_and_not_tested():
    assert RANGE.checked("hello") is None
    assert not RANGE.is_tested(None)
    assert RANGE.untested(None) == "`tool --version` told no version within 5 s"
    assert RANGE.untested("2.3.0") == "version 2.3.0 was not tested"
    assert RANGE.untested("2.2.9") is None
    assert str(RANGE) == ">=2.2,<2.3"


@pytest.mark.parametrize(
    ("says", "found"),
    [
        ("print(); print('tool 2.2.4'); print('more')", "tool 2.2.4"),
        ("while True: print('tool 2.2.4')", "tool 2.2.4"),
        ("raise SystemExit(3)", ""),
    ],
)
async def test_the_first_line_of_a_program_is_read_and_its_process_has_ended(tmp_path, says, found):
    argv = [sys.executable, "-I", "-S", "-c", says]
    async with open_services(tmp_path) as services:
        assert await RANGE.printed(argv, services) == found
        assert services.live == []


async def test_a_program_that_is_missing_is_an_error_with_its_cure(tmp_path):
    async with open_services(tmp_path) as services:
        with pytest.raises(ProviderNotAvailableError) as caught:
            await RANGE.printed(["/no/such/tool"], services)
    assert caught.value.hint == "Get it."
