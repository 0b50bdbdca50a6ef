"""MiniMax as a provider of PRSM, over Codex or Claude Code."""
