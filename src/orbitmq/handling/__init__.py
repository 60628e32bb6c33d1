"""The terms between rules and the server: a call, its reply, and waiting for something."""
