"""Stores for SQLAlchemy 2: PostgreSQL, MySQL or MariaDB, SQLite; plain and async engines."""
