"""What this distribution contributes: the provider `minimax`."""
