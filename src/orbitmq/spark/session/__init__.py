"""Spark sessions: Java, Python workers, start."""
