"""Filters of subscriptions: tags and SQL92."""
