"""POP consumption: pops, acknowledgements, revival."""
