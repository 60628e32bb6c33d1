"""Requests of operators: options, runtime figures, queries."""
