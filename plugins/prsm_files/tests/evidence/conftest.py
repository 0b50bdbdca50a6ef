"""Teams of scripted agents, as the tests of the engine have them."""

from tests.engine.conftest import opened, team

__all__ = ["opened", "team"]
