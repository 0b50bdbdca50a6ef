"""The version of prsm-core."""

__version__ = "0.1.0"
"""The version of the core that runs."""
