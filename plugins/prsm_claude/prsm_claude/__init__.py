"""Claude Code as a provider of PRSM, by way of claude-agent-sdk."""
