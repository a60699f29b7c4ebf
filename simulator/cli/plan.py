"""`simulator plan`: what plans there are, what one does, and changing that of a running simulator."""

from __future__ import annotations

from typing import Any

import click

from simulator.cli.remote import ask, print_json, read_configuration, read_plan, remote


@click.group()
def plan() -> None:
    """Check a fault plan, or change that of a running simulator.

    PLAN is a file (TOML or JSON) or the name of one that comes along.
    """


@plan.command("list")
def plan_list() -> None:
    """List the plans that come along."""
    from simulator.config import shipped_plans

    known = shipped_plans()
    width = max(map(len, known))
    for name, says in known.items():
        click.echo(f"{name:<{width}}  {says}")


@plan.command("check")
@click.argument("plan", metavar="PLAN")
def plan_check(plan: str) -> None:
    """Read PLAN and say in plain words what it does."""
    from simulator.config import explain, explain_settings, warnings
    from simulator.provider.account import DEFAULT_ACCOUNT

    configuration = read_configuration(plan)
    everybody = configuration.setup
    for name, setup in ((None, everybody), *((name, it.setup) for name, it in configuration.tenancy.tenants)):
        if name is not None:
            click.echo(f"account {name}:")
        for rule in setup.plan.rules:
            click.echo(explain(rule))
        for sentence in explain_settings(setup):
            click.echo(sentence)
        for warning in warnings(setup, account=DEFAULT_ACCOUNT if name is None else name):
            click.echo(f"mind: {warning}", err=True)
    count = _counted(len(everybody.plan.rules), len(explain_settings(everybody)))
    click.echo(f"{plan} is a good plan: {count}, seed {everybody.plan.seed}")


@plan.command("show")
@remote
@click.option("--json", "as_json", is_flag=True, help="The whole plan as JSON.")
def plan_show(url: str, account: str, token: str | None, as_json: bool) -> None:
    """Show the plan in force: each rule and how often it struck, and what is set."""
    shown = ask(url, account, token, lambda client: client.plan())
    if as_json:
        print_json(shown)
        return
    _show(shown)


@plan.command("set")
@click.argument("plan", metavar="PLAN")
@remote
def plan_set(plan: str, url: str, account: str, token: str | None) -> None:
    """Put PLAN in force, in place of the former one."""
    from simulator.config.written import setup_as_json

    data = setup_as_json(read_plan(plan))
    shown = ask(url, account, token, lambda client: client.set_plan(data))
    click.echo(f"in force for account {account}: {_counted_of(shown)}")
    _tell(shown)


@plan.command("add")
@click.argument("rules", metavar="RULE...", nargs=-1, required=True)
@remote
def plan_add(rules: tuple[str, ...], url: str, account: str, token: str | None) -> None:
    """Append rules to the plan in force, each in one line: "503 for 10 s", "lose 2 answers"."""
    shown = ask(url, account, token, lambda client: client.add_rules(*rules))
    _show(shown)


@plan.command("clear")
@remote
@click.option(
    "--all", "everything", is_flag=True, help="Take its settings away, too: everything is as usual."
)
def plan_clear(url: str, account: str, token: str | None, everything: bool) -> None:
    """Take all rules away: the provider is healthy again. Settings stay, and are said."""
    shown = ask(url, account, token, lambda client: client.heal(all=everything))
    if not _settings(shown):
        click.echo(f"account {account} has no faults any more")
        return
    click.echo(
        f"account {account} has no rules any more; its settings stay"
        " (simulator plan clear --all takes them away, too):"
    )
    _tell(shown)


@plan.command("reset")
@remote
def plan_reset(url: str, account: str, token: str | None) -> None:
    """Put the plan in force again that the account began with: that of serve --plan, or none."""
    shown = ask(url, account, token, lambda client: client.reset_plan())
    click.echo(f"in force for account {account}: {_counted_of(shown)}, as at the start")
    _tell(shown)


def _settings(shown: dict[str, Any]) -> list[str]:
    """Return what is set, in sentences. A simulator of a former version says nothing of it."""
    settings: list[str] = shown.get("settings", [])
    return settings


def _counted_of(shown: dict[str, Any]) -> str:
    return _counted(len(shown["rules"]), len(_settings(shown)))


def _counted(rules: int, settings: int) -> str:
    """Say how much there is of a plan; settings only if there are any."""
    said = f"{rules} rule{'' if rules == 1 else 's'}"
    return f"{said}, {settings} setting{'' if settings == 1 else 's'}" if settings else said


def _show(shown: dict[str, Any]) -> None:
    """Say what each rule does and did, and what is set."""
    if not shown["rules"] and not shown["replay"]:
        click.echo("no rules strike" if _settings(shown) else "no faults: every mail is taken")
    _tell(shown, did=True)


def _tell(shown: dict[str, Any], *, did: bool = False) -> None:
    """Say everything of a plan, one thing a line. `did`: also what each rule did so far."""
    from simulator.config import explain, read_rules

    for number, rule in enumerate(shown["rules"], 1):
        seen, fired, over = rule.pop("seen"), rule.pop("fired"), rule.pop("over")
        (read,) = read_rules([rule], "plan", start=number)
        so_far = f" Met {seen}, struck {fired}{', and is over' if over else ''}." if did else ""
        click.echo(f"{explain(read)}{so_far}")
    for sentence in _settings(shown):
        click.echo(sentence)
    _tell_of_replay(shown)
    _mind(shown)


def _tell_of_replay(shown: dict[str, Any]) -> None:
    """Say how far a recording is, if one is struck again."""
    replay = shown["replay"]
    if replay:
        recorded = f"{replay['recorded']} decision{'' if replay['recorded'] == 1 else 's'}"
        click.echo(f"replay: {replay['struck']} of {recorded} of a former run struck again")


def _mind(shown: dict[str, Any]) -> None:
    """Say what is probably not meant."""
    for doubt in shown.get("doubts", ()):
        click.echo(f"mind: {doubt}", err=True)
