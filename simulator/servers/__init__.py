"""The wires: SMTP, the native HTTP API and the control API on one event loop.

Servers ask `simulator.provider` what happens and word it with `simulator.dialects`; `wire` carries out the
manners in which an answer is (not) delivered, and is the only file that touches a transport.
"""

from __future__ import annotations
