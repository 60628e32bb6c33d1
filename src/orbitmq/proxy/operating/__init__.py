"""The service `Admin` of a proxy: what operators see and do, for clients of both protocols alike."""
