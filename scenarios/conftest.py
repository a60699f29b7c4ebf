"""Makes every scenario here a promise put to the test; how is said in `scenarios.plugin`."""

from __future__ import annotations

from scenarios.plugin import (
    matrix,
    promised,
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_generate_tests,
    pytest_runtest_makereport,
    pytest_sessionfinish,
    service,
    stage,
)

__all__ = [
    "matrix",
    "promised",
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_generate_tests",
    "pytest_runtest_makereport",
    "pytest_sessionfinish",
    "service",
    "stage",
]
