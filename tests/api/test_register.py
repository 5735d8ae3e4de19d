"""Registration from local files."""

from __future__ import annotations

import pytest

from pipeline.api import register as registering
from pipeline.api.kinds import Kind
from pipeline.api.register import register, registrations
from pipeline.errors import ComponentError


@pytest.fixture(autouse=True)
def no_registrations(monkeypatch):
    monkeypatch.setattr(registering, "_registrations", {})


def test_a_registration_tells_where_it_was_written():
    @register("model", "tiny")
    class Tiny:
        def __init__(self) -> None:
            pass

    (registration,) = registrations()
    assert (registration.kind, registration.name, registration.component) == (Kind.MODEL, "tiny", Tiny)
    assert registration.file == __file__
    assert registration.origin.endswith(f"Tiny ({__file__}:{registration.line})")


def test_the_component_itself_is_unchanged():
    def build() -> None: ...

    assert register("dataset", "made")(build) is build


def test_the_same_definition_again_replaces_it():
    for _ in range(2):

        @register("model", "tiny")
        def build() -> None: ...

    assert [registration.component for registration in registrations()] == [build]


def test_two_definitions_of_a_name_are_both_kept():
    """Only whoever uses the name is told of the clash."""

    @register("model", "tiny")
    def first() -> None: ...

    @register("model", "tiny")
    def second() -> None: ...

    assert [registration.component for registration in registrations()] == [first, second]


@pytest.mark.parametrize(
    ("kind", "name"), [("models", "tiny"), ("model", ""), ("model", "a/b"), ("model", "a b")]
)
def test_wrong_kinds_and_names_are_refused(kind, name):
    with pytest.raises(ComponentError, match="register"):
        register(kind, name)
