"""The plugin by which this package is listed: its command and its server are entry points."""
