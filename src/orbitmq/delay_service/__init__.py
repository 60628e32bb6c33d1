"""The delay service: messages wait here until they are due, and are then sent to their topics.

`rules` decide, and have neither sockets nor threads nor a clock; `store` keeps what is pending; `sources` and
`targets` speak to clusters; `serving` puts them together.
"""
