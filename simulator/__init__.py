"""A fake e-mail provider over SMTP and HTTP that lies on purpose and remembers what it really accepted.

`simulator.provider` decides (pure), `simulator.dialects` words it (pure), `simulator.servers` carries it out.
"""

from __future__ import annotations

__version__ = "0.1.0"
