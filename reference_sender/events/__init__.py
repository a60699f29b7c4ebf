"""What a provider tells of a mail after it took it: whether it is genuine, what it says, and what that means.

Pure: bytes and a moment in, values out. Must not hold: sockets, databases, clocks.
"""
