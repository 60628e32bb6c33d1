"""Topics that are looked through: `tail` shows messages as they come in, `search` finds those with a text."""
