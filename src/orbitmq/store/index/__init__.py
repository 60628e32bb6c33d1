"""The index: messages by key."""
