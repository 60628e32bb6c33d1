"""Topics as data frames."""
