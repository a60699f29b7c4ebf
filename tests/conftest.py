"""What holds for every run of the tests."""

from __future__ import annotations

import gc

from hypothesis import settings

# As in CI: the same examples each time, and none fails because the machine was busy.
settings.load_profile("ci")


def pytest_collection_finish() -> None:
    """Ten thousand collected tests live as long as the run: no collection of garbage need look at them again.

    The world clears up after every test, and each time would go through all of them.
    """
    gc.collect()
    gc.freeze()
