"""What holds for every run of the tests."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """Ten thousand collected tests live as long as the run: no collection of garbage need look at them again.

    The world clears up after every test, and each time would go through all of them.
    """
    gc.collect()
    gc.freeze()
