"""What `simulator serve` says when everything is up."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import click

from simulator import __version__, logs
from simulator.config import explain, explain_settings, warnings
from simulator.provider.account import DEFAULT_ACCOUNT
from simulator.servers.control import is_loopback
from simulator.servers.service import Service
from simulator.servers.usual_webhook import Origin
from simulator.store.opening import about

#: So many accounts are named one by one.
MOST_NAMED = 5


def say_hello(service: Service) -> None:
    """Say where everything is and what goes wrong here, for people."""
    options = service.options
    # Not rich's tables: half of what a start costs would be the greeting.
    bold, dim = partial(click.style, bold=True), partial(click.style, dim=True)
    mind = click.style("mind:", fg="yellow")
    say = partial(click.echo, err=True)
    say(f"{bold(f'mailproof simulator {__version__}')} – a provider that lies; Ctrl-C stops it")
    for name, value in (
        ("HTTP", f"{service.ready['http']}/v1/emails"),
        *(
            ("HTTPS", f"{service.ready['https']}/v1/emails")
            for _ in range(service.ready["https"] is not None)
        ),
        ("SMTP", service.ready["smtp"] + (" (STARTTLS)" if options.tls.starttls else "")),
        *(("SMTPS", service.ready["smtps"]) for _ in range(service.ready["smtps"] is not None)),
        *(("CA", service.ready["ca"]) for _ in range(service.ready["ca"] is not None)),
        ("page", f"{service.ready['http']}/"),
        ("control", service.ready["control"] + ("" if options.admin_token is None else " (admin token)")),
        ("ledger", about(service.store, options.retention)),
        ("seed", str(options.seed)),
        *_webhook(service),
    ):
        say(f"  {dim(f'{name:<8}')} {value}")
    if not is_loopback(options.smtp.host):
        say(f"  {mind}    SMTP can be reached from other machines, and knows no admin token")
    everybody = ("plan", options.setup)
    for name, setup in (everybody, *((name, it.setup) for name, it in options.tenancy.tenants)):
        rules, others = setup.plan.rules, explain_settings(setup)
        count = f"{len(rules)} rule{'' if len(rules) == 1 else 's'}"
        say(f"  {dim(f'{name:<8}')} {count if rules or others else 'no faults: every mail is taken'}")
        for sentence in (*map(explain, rules), *others):
            say(f"    {sentence}")
        for warning in warnings(setup, account=DEFAULT_ACCOUNT if name == "plan" else name):
            say(f"    {mind} {warning}")
    for sentence in _from_before(service):
        say(f"  {mind}    {sentence}")
    if options.tenancy.unknown == "refuse":
        say(f"  {dim('access')}   senders without known credentials are refused")


def _from_before(service: Service) -> Iterator[str]:
    """Yield what is in force and does not stand in the plan that this start was given."""
    more = "simulator plan show --account NAME"
    for name in service.recalled_plans[:MOST_NAMED]:
        yield f"account {_named(service, name)} goes on with the plan that was set before this start ({more})"
    for name, count in list(service.used_up.items())[:MOST_NAMED]:
        rules = f"{count} rule{'s' if count > 1 else ''}"
        yield f"{rules} of account {_named(service, name)} struck before this start and will not again ({more}); set a plan to begin anew"


def _named(service: Service, name: str) -> str:
    # Its name may be a real key that was sent by mistake.
    return logs.pseudonym(name) if service.is_hidden(name) else name


def _webhook(service: Service) -> list[tuple[str, str]]:
    usual = service.usual_webhook
    if usual.rules.url is None:
        return []
    # Who has given a secret knows it.
    secret = "secret" if usual.origin is Origin.GIVEN else f"secret {usual.rules.secrets[0]}"
    return [("webhook", f"{usual.rules.url} ({secret}, {usual.origin})")]
