"""The commands on what is kept of files."""
