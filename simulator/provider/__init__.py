"""The provider itself, pure: what it accepts, what it answers, what goes wrong and what it remembers.

Read `provider` first. Nothing here opens a socket, a file or a database, reads a clock or rolls a die:
`now` and seeds are arguments, and what has to be kept is handed out as records.
"""

from __future__ import annotations
