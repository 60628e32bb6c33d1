"""The broker's rules: plain functions over plain tables. No sockets, no clock, no sleeping, no randomness."""
