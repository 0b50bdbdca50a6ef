"""What the tests of the configuration share."""

import pytest

from tests.config.place import Place


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)
