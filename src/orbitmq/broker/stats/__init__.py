"""Counters, rates and metrics of a broker."""
