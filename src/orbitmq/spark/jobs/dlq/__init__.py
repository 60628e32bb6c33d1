"""`orbitmq job dlq`: the dead letters of all groups: what they are, kept for good, sent again once each.

A message that a group has failed on too often lies in the topic `%DLQ%group`, and goes with the broker's
retention. `dead_letters` makes a table of them; the lake of the archive job keeps them; `redrive` sends a
selection again, and the folder of `audit` knows what was sent, when and by whom.
"""
