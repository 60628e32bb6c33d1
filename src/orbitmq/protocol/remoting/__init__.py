"""Frames, commands and their headers: the remoting protocol."""
