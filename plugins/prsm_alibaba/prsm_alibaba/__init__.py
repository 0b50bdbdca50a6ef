"""Alibaba Model Studio (Qwen) as a provider of PRSM, over Codex or Claude Code."""
