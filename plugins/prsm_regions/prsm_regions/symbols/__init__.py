"""Symbols of a workspace, by tree-sitter: found without a model and without reading a file."""
