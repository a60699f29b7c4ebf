"""`python -m scenarios certify | replay …`: what the commands of the same names of `simulator` run."""

from __future__ import annotations

import sys

from scenarios.certify import main


def run() -> None:
    """Run the command line. The world is only loaded by who needs it."""
    if sys.argv[1:2] == ["replay"]:
        from scenarios.simulation.replay import replay

        main.add_command(replay)
    main()


if __name__ == "__main__":
    run()
