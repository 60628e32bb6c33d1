"""The work that only a master does: taken up, let go, and done by a slave in its place."""
