"""Dead letters: read, told apart by cause, and sent again once each with a journal on the disk.

`letter` is one of them, `reading` gets them from brokers, `clusters` counts them by cause, `outgoing` makes
the message that is sent again, `journal` remembers what was sent, `redrive` sends.
"""
