"""Topics, consumer groups, and the identity of this broker."""
