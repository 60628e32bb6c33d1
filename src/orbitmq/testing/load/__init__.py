"""All kinds of messages at once, and a history of what was promised: for simulations and for `orbitmq prove`.

`clients` sends, reads, pops, decides and commits; `history` keeps what the broker acknowledged and what
anybody saw, and says in one pass over it which promise was broken.
"""
