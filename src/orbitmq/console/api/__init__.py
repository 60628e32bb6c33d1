"""The HTTP API: one module per subject, each request declared once; OpenAPI and dispatch follow from it."""
