"""``pipeline components``: what is installed, and from where."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from pipeline.api.kinds import Kind
from pipeline.cli.output import CONFIG_ERROR, leave_with, say, shown_errors
from pipeline.cli.results import print_json, print_table

if TYPE_CHECKING:
    from pipeline.registry.describing import Description, ParameterDescription
    from pipeline.registry.listing import Listing


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("kind", required=False)
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--load", is_flag=True, help="Import each one, so that every broken one shows; takes seconds.")
def command(kind: str | None, name: str | None, as_json: bool, load: bool) -> None:
    """Show the components that are installed: all, those of one KIND, or one in full.

    NAME may be qualified, as acme-vision/resnet. The list is made without importing anything.

    Exit status: 0 shown, broken ones too; 2 no such kind or component.
    """
    wanted = _kind(kind) if kind is not None else None
    with shown_errors(CONFIG_ERROR):
        from pipeline.registry.registry import Registry

        registry = Registry.discover()
        for warning in registry.warnings:
            say(f"warning: {warning}")
        if wanted is not None and name is not None:
            _show_one(registry.describe(wanted, name), as_json)
        else:
            _show_all(registry.listing(wanted, load=load), as_json)


def _kind(text: str) -> Kind:
    from pipeline.config.wording import nearest

    names = [kind.value for kind in Kind]
    if text not in names:
        near = nearest(text, names)
        hint = f"; did you mean {near!r}?" if near else ""
        leave_with(f"there is no kind {text!r}; the kinds are {', '.join(names)}{hint}", CONFIG_ERROR)
    return Kind(text)


def _show_all(listings: list[Listing], as_json: bool) -> None:
    if as_json:
        print_json([asdict(listing) for listing in listings])
        return
    headers = ("kind", "name", "distribution", "version", "from", "problem")
    print_table(headers, [_line(listing) for listing in listings])


def _line(listing: Listing) -> tuple[str | None, ...]:
    problem = listing.problem.splitlines()[0] if listing.problem else ""
    if listing.clash:
        problem = "; ".join(filter(None, (f"the name is taken twice: write {listing.qualified}", problem)))
    distribution = listing.distribution or "local"
    return str(listing.kind), listing.name, distribution, listing.version, listing.target, problem


def _show_one(description: Description, as_json: bool) -> None:
    if as_json:
        print_json(asdict(description))
        return
    listing = description.listing
    origin = f"{listing.distribution} {listing.version or ''}".strip() if listing.distribution else "local"
    click.echo(f"{listing.kind} {listing.name}: {listing.target} ({origin})")
    for trouble in (description.problem, description.refused):
        if trouble:
            click.echo(f"\ncannot be used: {trouble}")
    if description.doc:
        click.echo(f"\n{description.doc}")
    if description.parameters:
        click.echo()
        headers = ("parameter", "type", "default", "about")
        print_table(headers, [_parameter(one) for one in description.parameters])
    if description.takes_any:
        click.echo("\nIt takes further arguments, which are not checked.")
    if description.table:
        click.echo(f"\n{description.table}", nl=False)


def _parameter(one: ParameterDescription) -> tuple[object, ...]:
    default = "(required)" if one.required else one.default
    about = f"cannot be set: {one.refusal}" if one.refusal else one.doc
    return one.name, one.type, default, about
