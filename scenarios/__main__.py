"""`python -m scenarios certify | replay | zoo | storms | search | outage …`: what `simulator` runs under the same names, and more."""

from __future__ import annotations

import sys

from scenarios.certify import main


def run() -> None:
    """Run the command line. The world is only loaded by who needs it."""
    if sys.argv[1:2] == ["replay"]:
        from scenarios.simulation.replay import replay

        main.add_command(replay)
    if sys.argv[1:2] == ["zoo"]:
        from scenarios.simulation.zoo.visit import zoo

        main.add_command(zoo)
    if sys.argv[1:2] == ["storms"]:
        from scenarios.simulation.sweeps import storms

        main.add_command(storms)
    if sys.argv[1:2] == ["search"]:
        from scenarios.simulation.byteless.command import search

        main.add_command(search)
    if sys.argv[1:2] == ["outage"]:
        from scenarios.simulation.two_designs import outage

        main.add_command(outage)
    main()


if __name__ == "__main__":
    run()
