"""Shows on a broker, by killing it, which messages can be lost with a configuration.

`power` lets a real broker run beside a record of what it brought to the disk, and makes of the two what a
power cut leaves. `brokers` starts and ends brokers; `trial` lets clients loose on one and
compares; `seeds` has the same configuration simulated meanwhile.
"""
