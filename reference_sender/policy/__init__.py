"""What the sender thinks, as pure functions: evidence in, outcome out, decision out.

Read in this order: `evidence` (what an attempt saw), `classify` (what it means), `decision` (what to do now).
Must not hold: I/O, clocks, dice – `now` and `rng` are arguments.
"""

from __future__ import annotations
