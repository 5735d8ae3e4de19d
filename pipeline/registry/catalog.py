"""Looking a name up: which package or local file claims it, and what to say if none or several do."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable
from dataclasses import dataclass
from pathlib import Path

from pipeline.api.kinds import RULES, Kind
from pipeline.api.register import Registration, registrations
from pipeline.config.plan import Fault
from pipeline.config.wording import nearest
from pipeline.registry.discovery import Entry
from pipeline.registry.distributions import normalised
from pipeline.registry.local import is_for_lists_alone


@dataclass(frozen=True)
class Claim:
    """One component that a name may mean."""

    source: Entry | Registration

    @property
    def kind(self) -> Kind:
        return self.source.kind

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def scope(self) -> str:
        """What qualifies the name: the distribution; for local components the file's stem."""
        if isinstance(self.source, Entry):
            return self.source.distribution
        file = module_file(self.source)
        return file.stem if file else self.source.module.rpartition(".")[2]

    @property
    def qualified(self) -> str:
        """The spelling that means this one alone, as ``acme-vision/resnet`` or ``my_model/tiny``."""
        return f"{self.scope}/{self.name}"

    @property
    def origin(self) -> str:
        """Who makes the claim, for messages."""
        if isinstance(self.source, Entry):
            return self.source.origin
        place = module_file(self.source) or self.source.file
        return f"{self.source.module}.{self.source.qualname} ({place})"


def module_file(registration: Registration) -> Path | None:
    """The file that registered a component; None in a notebook or an interactive session."""
    file = getattr(sys.modules.get(registration.module), "__file__", None)
    return Path(file) if isinstance(file, str) else None


class Catalog:
    """All claims: the entries found at the start, and what was registered in the process by now.

    What another config's local files registered in the same process is left out.
    """

    def __init__(self, entries: Iterable[Entry], listed: Container[str] = ()) -> None:
        """``listed``: the modules of the local files that are listed here; it may grow."""
        self._entries = tuple(Claim(entry) for entry in entries)
        self._listed = listed

    def claims(self, kind: Kind | None = None) -> tuple[Claim, ...]:
        """Every claim of a kind, or of all kinds."""
        registered = (
            Claim(registration)
            for registration in registrations()
            if registration.module in self._listed or not is_for_lists_alone(registration.module)
        )
        everything = (*self._entries, *registered)
        return tuple(claim for claim in everything if kind in (None, claim.kind))

    def clashes(self, claim: Claim) -> bool:
        """Whether the claim's plain name has other claims too, so that it must be qualified."""
        return len(self._named(claim.kind, claim.name)) > 1

    def find(self, kind: Kind, type_name: str) -> Claim | Fault:
        """The one claim that a name means, qualified or not.

        Returns:
            The claim, or a fault with the path ``("type",)``: the name is unknown, or several
            packages or files claim it.
        """
        scope, name = type_name.split("/", 1) if "/" in type_name else ("", type_name)
        found = self._named(kind, name)
        if scope:
            found = [claim for claim in found if normalised(claim.scope) == normalised(scope)]
        if len(found) == 1:
            return found[0]
        return _ambiguous(kind, type_name, found) if found else self._unknown(kind, type_name, name)

    def _named(self, kind: Kind, name: str) -> list[Claim]:
        return [claim for claim in self.claims(kind) if claim.name == name]

    def _unknown(self, kind: Kind, type_name: str, name: str) -> Fault:
        claims = self.claims(kind)
        spellings = {claim.qualified if "/" in type_name else claim.name for claim in claims}
        near = nearest(type_name, sorted(spellings), most=None)
        message = f"there is no {kind} {type_name!r}"
        elsewhere = [str(other) for other in Kind if other != kind and self._named(other, name)]
        if elsewhere:
            message += f" (there is one of that name among the kinds: {', '.join(elsewhere)})"
        elif not near and (same := self._named(kind, name)):
            message += f" (that name is claimed by {_listed(same)})"
        expected = (
            f"a name that an installed package offers as {RULES[kind].group}, or that a local file "
            'registers and the config lists, as components = ["file.py"]'
        )
        names = sorted({claim.name for claim in claims})
        detail = f"known names of the kind {kind}: {', '.join(names) or 'none'}"
        return Fault(("type",), message, expected, near, detail, is_unknown_name=True)


def _ambiguous(kind: Kind, type_name: str, claims: list[Claim]) -> Fault:
    spellings = sorted({f'"{claim.qualified}"' for claim in claims})
    message = f"the {kind} {type_name!r} is claimed by {_listed(claims)}"
    if len(spellings) < len(claims):
        return Fault(("type",), message, "one definition of it; rename the others or their files")
    return Fault(("type",), message, f"which one: {' or '.join(spellings)}")


def _listed(claims: list[Claim]) -> str:
    return " and by ".join(claim.origin for claim in claims)
