"""The commit log: segments, appends, retention."""
