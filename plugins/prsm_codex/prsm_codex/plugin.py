"""What the plugin contributes."""
