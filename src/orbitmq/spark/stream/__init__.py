"""Topics as streams."""
