"""Broker groups as sets of masters and slaves: how far each member is, and the change of a master by hand.

`survey` asks what there is; `status` says how far slaves are; `old_master` is the one rule by which a master
counts as gone, for `promoting` and for migrations.
"""
