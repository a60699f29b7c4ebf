"""`python -m reference_sender` is `reference-sender`."""

from __future__ import annotations

from reference_sender.cli import main

if __name__ == "__main__":
    main()
