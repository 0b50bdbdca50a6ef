"""What this distribution contributes: the provider `claude`."""
