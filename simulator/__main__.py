"""`python -m simulator` is `simulator`."""

from __future__ import annotations

from simulator.cli import main

if __name__ == "__main__":
    main()
