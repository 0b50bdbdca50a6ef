"""What the tests of the command policy share with those of the core."""

from tests.conftest import report  # noqa: F401 - a fixture
