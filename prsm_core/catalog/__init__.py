"""What is known of models, and which of them fits a task."""
