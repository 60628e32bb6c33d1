"""Every request and reply, one module per subject; `every` imports them all."""
