"""How a mail leaves: one file a wire. A transport gathers evidence and never judges it.

Must not hold: databases, retries, decisions.
"""

from __future__ import annotations
