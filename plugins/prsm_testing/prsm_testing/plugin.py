"""The plugin by which this package is listed: its command is an entry point."""
