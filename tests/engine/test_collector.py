"""The garbage collector rests while something is imported; then it is as it was, or as it is wanted."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from pipeline.engine.collector import REST, collector_at_rest


@pytest.fixture(autouse=True)
def settings_of_the_process() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.enable()


def test_it_works_again_after_an_error():
    before = gc.get_threshold()
    with pytest.raises(ImportError), collector_at_rest():
        assert gc.get_threshold()[0] == REST
        raise ImportError
    assert gc.isenabled() and gc.get_threshold() == before


def test_a_component_may_disable_it_for_the_run():
    """Against pauses at different times on different ranks."""
    with collector_at_rest():
        gc.disable()
    assert not gc.isenabled()


@pytest.mark.parametrize("chosen", [0, 50_000, 10 * REST])
def test_a_component_may_choose_its_threshold(chosen):
    with collector_at_rest():
        gc.set_threshold(chosen, 20)
    assert gc.get_threshold()[:2] == (chosen, 20)
