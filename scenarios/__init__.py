"""The certification suite: stages storms against a sender and judges what the provider's ledger says.

Judging (`promises`, `history`, `checks`, `report`) is pure; staging (`sender_file`, `adapter`, `stage`) does the I/O.
"""

from __future__ import annotations
