"""The whole world in one process, one thread and virtual time: loop, network, processes, disks.

Read `world` first. The simulator and the senders run here unmodified, with their real bytes; what is replaced
is what they stand on. Nothing in this folder knows a promise or judges anything.
"""

from __future__ import annotations
