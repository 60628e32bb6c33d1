"""Decisions of the delay service: orders, times, repetitions, delivery. Time is passed in."""
