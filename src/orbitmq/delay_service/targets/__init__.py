"""Clusters to which messages are sent when they are due."""
