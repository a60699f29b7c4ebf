"""The native HTTP API's words: JSON bodies become submissions, answers become status, headers and body.

Everything here is a function of its arguments: the same request at the same instant is the same message,
byte for byte. Paths, connections and how an answer (mis)behaves on the wire are the server's work.
"""

from __future__ import annotations

DIALECT = "native"
