"""Gemini CLI as a provider of PRSM, over ACP or headless."""
