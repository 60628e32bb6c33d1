"""Transactions: half messages, their ends, check-back."""
