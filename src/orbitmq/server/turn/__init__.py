"""A turn of the event loop: read, handle, append, answer."""
