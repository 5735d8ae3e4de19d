"""For every test: nothing leaks from it, and properties are examined reproducibly."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, settings

from guards import GUARDS

pytest_plugins = ["soak", "harness.fixtures"]

settings.register_profile(
    "ci", max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "soak",
    max_examples=5000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("soak" if config.getoption("--soak") else "ci")
    # Started with `&` by a script, this process ignores SIGINT and so would every command under test.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def nothing_leaks() -> Iterator[None]:
    """Compare and restore what tests share; the first fixture of a test, so the last to end."""
    complaints: list[str] = []
    with ExitStack() as stack:
        for guard in GUARDS:
            stack.enter_context(guard(complaints.append))
        yield
    if complaints:
        pytest.fail("the test leaks: " + "; ".join(complaints), pytrace=False)
