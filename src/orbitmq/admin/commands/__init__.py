"""One file per command: a function over `Admin`, and its decorator `@command` for the command line."""
