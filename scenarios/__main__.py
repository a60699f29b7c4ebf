"""`python -m scenarios certify …`: what `simulator certify` runs."""

from __future__ import annotations

from scenarios.certify import main

if __name__ == "__main__":
    main()
