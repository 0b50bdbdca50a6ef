"""The run as lines of JSON, for an editor or another program that leads it."""
