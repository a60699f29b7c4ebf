"""The zoo: senders with one sin each, and how many worlds it takes to see it.

A judge that has never caught anybody proves nothing. Each sender here is the reference sender with one small thing
done wrong, the way real senders do it; each must be caught, in few cells, as what it is. `keeper` says what a bad
sender is and plays it; the other rooms hold the senders, by what they get wrong.
"""

from __future__ import annotations
