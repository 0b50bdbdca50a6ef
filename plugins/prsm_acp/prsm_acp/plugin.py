"""What this distribution contributes: the provider `acp`."""
