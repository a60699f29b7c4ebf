"""The words of each wire, pure: what came in becomes a `Submission`, what is said becomes bytes.

A dialect knows codes, headers and forms of one wire. It knows no rule, no connection and no clock.
"""

from __future__ import annotations

#: Every dialect the provider speaks, with the wire it is spoken over.
DIALECTS: dict[str, str] = {"smtp": "smtp", "native": "http"}
