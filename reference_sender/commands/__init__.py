"""Commands of the command line that have a room of their own, each loaded when it is called.

Must not hold: rules of sending, SQL.
"""
