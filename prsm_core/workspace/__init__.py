"""The user's files: which repository they belong to, and what prompts refer to."""
