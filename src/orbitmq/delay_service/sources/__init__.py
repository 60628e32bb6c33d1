"""Clusters from which orders are read."""
