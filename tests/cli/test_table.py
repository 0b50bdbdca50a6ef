"""Tables are as wide as the terminal, and a row is one line where there is none."""

from hypothesis import given
from hypothesis import strategies as st

from prsm_core.terminal.table import LONGEST, format_table

HEADERS = ("NAME", "MODEL", "WHY")
ROW = ("  w1", "script/default", "it is the one that was asked for")
CELLS = st.text(alphabet="ab/ ", max_size=60)


def test_a_table_that_fits_has_one_line_a_row():
    assert format_table(HEADERS, [ROW], width=80) == format_table(HEADERS, [ROW])


def test_a_table_that_is_too_wide_breaks_its_widest_column_between_words():
    assert format_table(HEADERS, [ROW], width=44).splitlines() == [
        "NAME  MODEL           WHY",
        "  w1  script/default  it is the one that was",
        "                      asked for",
    ]


def test_a_tree_fits_into_80_columns_without_breaking_a_word():
    headers = ("AGENT", "ID", "STATE", "EVIDENCE", "ROLE", "MODEL", "TIME", "TOKENS", "LAST TOOL")
    model, tool = "claude/claude-opus-4-5/default", "wait_for_message"
    row = ("master", "7a2d83fb", "waiting_for_child", "-", "master", model, "6s", "≥ 110", tool)
    lines = format_table(headers, [row], width=80).splitlines()
    assert max(map(len, lines)) <= 80
    found = {word for line in lines[1:] for word in line.split()}
    assert {"waiting_", "child", "default", "message"} <= found


def test_columns_move_together_where_only_that_keeps_words_whole():
    headers = ("AGENT", "ID", "STATE", "EVIDENCE", "ROLE", "MODEL", "TIME", "TOKENS", "LAST TOOL")
    rest = ("e5c2bce7", "completed", "claimed", "reviewer", "script/default", "0s", "0")
    lines = format_table(headers, [("  reviewer", *rest, "task_complete")], width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == " ".join(headers).split()
    assert {"completed", "reviewer", "claimed", "complete"} <= set(" ".join(lines).split())


def test_what_is_spare_is_left_out_before_rows_are_hard_to_read():
    headers = ("AGENT", "ID", "STATE", "ROLE", "MODEL", "TIME", "TOKENS", "COST", "LAST TOOL")
    spent = ("2m 59s", "30,800 + unknown (5 turns)", "unknown (8 turns)", "wait_for_message")
    row = ("master", "275d7cfc", "waiting_for_child", "master", "codex/default", *spent)
    lines = format_table(headers, [row], width=80, spare=("ROLE", "LAST TOOL", "ID")).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 4, lines
    assert "ROLE" not in lines[0]


def test_a_model_is_broken_after_its_provider():
    lines = format_table(("A", "MODEL"), [("x", "provider/model-12345")], width=14).splitlines()
    assert lines == ["A  MODEL", "x  provider/", "   model-12345"]


def test_a_terminal_that_is_too_narrow_gets_the_whole_lines():
    assert format_table(HEADERS, [ROW], width=18) == format_table(HEADERS, [ROW])


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=5), st.integers(52, 90))
def test_a_fitted_table_loses_nothing_and_never_is_wider(rows, width):
    assert width >= len(HEADERS) * (LONGEST + 2) - 2
    text = format_table(HEADERS, rows, width=width)
    assert max(map(len, text.splitlines())) <= width
    told = "".join("".join(row) for row in (HEADERS, *rows))
    assert sorted(text.replace("\n", "").replace(" ", "")) == sorted(told.replace(" ", ""))


def test_columns_that_can_be_spared_are_left_out_where_there_is_no_room():
    headers = ("AGENT", "ID", "STATE", "ROLE")
    row = ("master", "7a2d83fb", "completed", "master")
    lines = format_table(headers, [row], width=19, spare=("ROLE", "ID")).splitlines()
    assert lines == ["AGENT   STATE", "master  completed"]
    assert format_table(headers, [row], width=80, spare=("ROLE",)) == format_table(headers, [row])
    assert format_table(headers, [row], spare=("ROLE",)) == format_table(headers, [row])


def test_wide_letters_keep_columns_in_line():
    lines = format_table(("NAME", "WHY"), [("漢字", "x"), ("ab", "y")]).splitlines()
    assert lines == ["NAME  WHY", "漢字  x", "ab    y"]
