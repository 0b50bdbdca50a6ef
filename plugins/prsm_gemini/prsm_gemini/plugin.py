"""What this distribution contributes: the provider `gemini`."""
