"""Connections, routes and names that producers and consumers share."""
