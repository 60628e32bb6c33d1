"""Dead letters: read, told apart by cause, and sent again once each with a journal on the disk.

`dead_letter` is one of them, `reading` gets them from brokers, `clusters` counts them by cause. `asked` is
the request for a redrive, `planning` selects its dead letters, `targets` knows the queues to which they go,
`outgoing` makes the message that is sent again, `redrive` sends, and `journal` keeps what was sent.
"""
