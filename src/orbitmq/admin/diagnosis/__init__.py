"""Causes of a backlog: `evidence` is all that is known, `rules` judge it, `gathering` asks the cluster."""
