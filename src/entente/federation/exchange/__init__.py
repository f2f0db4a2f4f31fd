"""What silos tell one another, while they detect, of hosts that stand out. No sockets, no files.

A silo sends one packet per window, always of the same size: notes on its own hosts that stood out and that
have dealt with hosts of others, filled up with notes on nobody. A note is a pseudonym and a level. Silos
share a key that the coordinator, which carries the packets, does not have.
"""
