"""One browser for the tests of a file."""

import pytest
from tab import chromium


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium."""
    with chromium() as one:
        yield one
