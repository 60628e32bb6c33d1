"""Sends: from frames to records and answers."""
