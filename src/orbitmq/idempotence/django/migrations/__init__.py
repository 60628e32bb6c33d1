"""Migrations of the table."""
