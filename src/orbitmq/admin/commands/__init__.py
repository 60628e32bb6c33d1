"""One file per command: a function over `Admin`, and its face on the command line."""
