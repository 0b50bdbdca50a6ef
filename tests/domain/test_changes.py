"""A path is stored as text from which its bytes come back."""

import os

from hypothesis import given
from hypothesis import strategies as st

from prsm_core.domain.changes import path_text, text_path


@given(st.binary(max_size=20))
def test_every_path_comes_back_from_its_text(data):
    path = os.fsdecode(data)
    text = path_text(path)
    text.encode()
    assert text_path(text) == path


def test_the_text_of_a_usual_path_is_the_path():
    assert path_text("src/ä b.py") == "src/ä b.py"
    assert path_text(os.fsdecode(b"\xff\\")) == "\\xff\\\\"
