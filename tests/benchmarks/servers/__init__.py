"""How fast the provider takes mail in, beside what it is built on: contenders, load, and a ledger that has grown."""
