"""Declared requests and bodies, and the codecs derived from them."""
