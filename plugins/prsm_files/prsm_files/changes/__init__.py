"""What changed in a folder, whose it is, and how one change is taken back while others stay."""
