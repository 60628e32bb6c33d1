"""The role of a broker in its group: its state, the rules by which it changes, and its promise."""
