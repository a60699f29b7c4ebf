"""A transactional-outbox sender for e-mail: the one to copy from.

Read `life` (states and moves), then `worker` (one mail's way), then `outbox` and `transports`.
"""

from __future__ import annotations

__version__ = "0.1.0"
