"""`simulator decisions`: what struck whom, and the same saved so that it can be struck again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from simulator.cli.remote import Trouble, ask, print_json, remote

DEFAULT = "default"


@click.command()
@remote
@click.option("--json", "as_json", is_flag=True, help="All facts as JSON.")
@click.option("--all", "everybody", is_flag=True, help="With --save: those of every account.")
@click.option("--save", type=click.Path(path_type=Path), metavar="FILE", help="Write a plan that strikes the same again (serve --replay, plan set).")  # fmt: skip
def decisions(
    url: str, account: str, token: str | None, as_json: bool, everybody: bool, save: Path | None
) -> None:
    """List what struck whom: rules, limits and magic addresses, in order."""
    if save is not None:
        plan = ask(url, account, token, lambda client: client.replay())
        if everybody:
            plan = _of_everybody(url, token)
        _save(save, plan)
        return
    if everybody:
        raise click.UsageError("--all goes with --save; a list is of one --account")
    found = ask(url, account, token, lambda client: client.decisions())
    if as_json:
        print_json({"decisions": found})
        return
    if not found:
        click.echo(f"nothing has gone wrong in account {account} yet")
    for each in found:
        click.echo(
            f"{each['number']:>5}  {each['at'][11:23]}  {each['attempt']}  {each['stage']}: "
            f"{', '.join(each['rules'])} – {each['answer']}"
        )


def _of_everybody(url: str, token: str | None) -> dict[str, Any]:
    """Return one plan for a whole provider: that of the default account, and those of the others under their names."""
    names = ask(url, DEFAULT, token, lambda client: client.health())["accounts"]
    plans = {name: ask(url, name, token, lambda client: client.replay()) for name in names}
    plan: dict[str, Any] = plans.pop(DEFAULT)
    return plan | {"accounts": plans}


def _save(path: Path, plan: dict[str, Any]) -> None:
    if path.suffix.lower() != ".json":
        raise Trouble(
            f"--save is {str(path)!r}; the file is JSON and must be named so, like {path.stem}.json"
        )
    try:
        path.write_text(json.dumps(plan, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as problem:
        raise Trouble(f"--save {path} cannot be written: {problem.strerror}") from problem
    count = sum(len(each["replay"]) for each in (plan, *plan.get("accounts", {}).values()))
    click.echo(f"{path}: {count} decisions; play them with: simulator serve --replay {path}")
