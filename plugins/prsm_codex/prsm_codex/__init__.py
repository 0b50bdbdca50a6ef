"""Codex as a provider of PRSM."""
