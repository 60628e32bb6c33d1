"""Handles that a broker gives to clients and gets back."""
