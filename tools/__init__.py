"""What the course is made, measured and shown with; run as modules from the repository's top folder."""
