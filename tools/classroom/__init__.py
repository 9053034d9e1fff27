"""What a teacher runs."""
