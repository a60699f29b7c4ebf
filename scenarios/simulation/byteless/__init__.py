"""The model level: the sender's own code against the provider's own core, and no byte between them.

What the wire level plays in milliseconds is played here in a fraction of one: the outbox is a dictionary, a line is
two Python objects, and the loop is a list. Whatever is found here is played again on the wire before it counts.
"""

from __future__ import annotations
