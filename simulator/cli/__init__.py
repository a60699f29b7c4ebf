"""The command line: `simulator serve | certify | replay | plan | ledger | verdict`.

A command reads its options, calls one thing and words the result; no work is done here. What a command needs is
imported by that command, so that `--help` does not wait for a web server. Exit codes: 0 ok, 1 the judged thing
failed, 2 usage or set-up, with one sentence on stderr.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from simulator import __version__
from simulator.cli.decisions import decisions
from simulator.cli.plan import plan
from simulator.cli.remote import (
    FAILED,
    OK,
    SETUP,
    Trouble,
    ask,
    print_json,
    read_configuration,
    read_recording,
    remote,
)

if TYPE_CHECKING:
    from simulator.client import ControlClient
    from simulator.provider.retention import Retention
    from simulator.servers.service import Service


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    try:
        result = cli.main(
            args=None if arguments is None else list(arguments),
            prog_name="simulator",
            standalone_mode=False,
        )
    except click.UsageError as problem:
        command = problem.ctx.command_path if problem.ctx is not None else "simulator"
        said = problem.format_message().rstrip(".")
        click.echo(f"simulator: {said} (see: {command} --help)", err=True)
        return SETUP
    except click.ClickException as problem:
        problem.show()
        return problem.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    return result if isinstance(result, int) else OK


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="simulator")
def cli() -> None:
    """A mail provider that misbehaves on purpose and remembers what it really accepted."""


cli.add_command(plan)
cli.add_command(decisions)


# --- serve ------------------------------------------------------------------------------------------


@cli.command()
@click.option("--http", default="127.0.0.1:8025", show_default=True, metavar="HOST:PORT", help="Where HTTP and the control API listen; port 0: any free one.")  # fmt: skip
@click.option("--https", metavar="HOST:PORT", help="Where HTTP senders are served under TLS; port 0: any free one.")  # fmt: skip
@click.option("--smtp", default="127.0.0.1:1025", show_default=True, metavar="HOST:PORT", help="Where SMTP listens; port 0: any free one.")  # fmt: skip
@click.option("--smtps", metavar="HOST:PORT", help="Where SMTP listens under TLS from the first byte on; port 0: any free one.")  # fmt: skip
@click.option("--starttls", is_flag=True, help="Offer STARTTLS at --smtp.")
@click.option("--tls-dir", default="simulator-tls", show_default=True, type=click.Path(path_type=Path), metavar="DIR", help="Where our own CA is kept; senders trust its ca.pem.")  # fmt: skip
@click.option("--tls-name", multiple=True, metavar="NAME", help="A name or address more for the server certificate; may be given again.")  # fmt: skip
@click.option("--tls-cert", type=click.Path(path_type=Path), metavar="FILE", help="Your own certificate with its chain (PEM), in place of one of our CA.")  # fmt: skip
@click.option(
    "--tls-key", type=click.Path(path_type=Path), metavar="FILE", help="The key of --tls-cert (PEM)."
)
@click.option("--ledger", default="simulator.db", show_default=True, metavar="memory|PATH|URL", help="Where accepted mail is kept: memory, a SQLite file, or postgresql://USER@HOST/DATABASE.")  # fmt: skip
@click.option("--durability", type=click.Choice(["process", "power"]), default="process", show_default=True, help="What a yes survives: kill -9 of the simulator, or a power cut too.")  # fmt: skip
@click.option("--keep-age", metavar="TIME", help="Keep mails, attempts and decisions so long (7 days); the newest mail of an account stays.")  # fmt: skip
@click.option("--keep-count", metavar="N", help="Keep the newest N mails.")
@click.option("--keep-bytes", metavar="SIZE", help="Keep so many bytes of mail (2GB).")
@click.option("--plan", metavar="PLAN", help="The fault plan every account begins with: a file (TOML or JSON), or the name of one that comes along (simulator plan list).")  # fmt: skip
@click.option("--replay", metavar="FILE", help="Strike again what struck in a former run (simulator decisions --save).")  # fmt: skip
@click.option("--seed", type=int, metavar="N", help="Seed of all dice and names; a fresh one is printed.")
@click.option("--admin-token", metavar="T", help="Ask for this token at the control API; needed to listen beyond this machine.")  # fmt: skip
@click.option("--webhook-url", metavar="URL", help="Where events are told, unless a plan says it.")
@click.option("--webhook-secret", metavar="S", help="Signs them: whsec_ and base64; else the ledger keeps one, which is printed.")  # fmt: skip
@click.option("--webhook-hosts", type=click.Choice(["loopback", "private", "any"]), default="loopback", show_default=True, help="How far webhooks may go: this machine, private networks, everywhere.")  # fmt: skip
@click.option("--ready-file", type=click.Path(path_type=Path), metavar="FILE", help="Write addresses and pid there (JSON) when everything is up; -: to the standard output.")  # fmt: skip
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="warning", show_default=True, help="info: a line per attempt and per request to the control API.")  # fmt: skip
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="For people, or one JSON object a line.")  # fmt: skip
@click.option("--until-eof", is_flag=True, help="Stop when the standard input ends, as it does when whoever started us is gone.")  # fmt: skip
def serve(
    http: str,
    https: str | None,
    smtp: str,
    smtps: str | None,
    starttls: bool,
    tls_dir: Path,
    tls_name: tuple[str, ...],
    tls_cert: Path | None,
    tls_key: Path | None,
    ledger: str,
    durability: str,
    keep_age: str | None,
    keep_count: str | None,
    keep_bytes: str | None,
    plan: str | None,
    replay: str | None,
    seed: int | None,
    admin_token: str | None,
    webhook_url: str | None,
    webhook_secret: str | None,
    webhook_hosts: str,
    ready_file: Path | None,
    until_eof: bool,
    log_level: str,
    log_format: str,
) -> None:
    """Serve until SIGTERM or Ctrl-C.

    What was answered with yes is in the ledger before the answer goes out.
    """
    # What is loaded from here on never becomes rubbish: nobody need look for any in it, now or later.
    gc.disable()
    click.get_current_context().call_on_close(gc.enable)
    from simulator import logs
    from simulator.clock import fresh_seed
    from simulator.config import Configuration
    from simulator.provider.webhooks import Reach
    from simulator.servers.options import Options, ServeError, read_address
    from simulator.servers.serve import serve
    from simulator.servers.tls import TlsOptions
    from simulator.store import Durability, StoreError

    logs.begin(log_format, log_level)
    if plan is not None and replay is not None:
        raise click.UsageError("--plan and --replay both say what goes wrong; give one of them")
    if replay is not None:
        configuration = read_recording(replay)
    else:
        configuration = Configuration() if plan is None else read_configuration(plan)
    if seed is None:
        # A plan that names its seed has chosen; 0 is what a plan without one has.
        seed = configuration.setup.plan.seed or fresh_seed()
    configuration = configuration.seeded(seed)
    if not (starttls or smtps or https):
        for option, value in (("--tls-cert", tls_cert), ("--tls-key", tls_key), ("--tls-name", tls_name)):
            if value:
                raise Trouble(
                    f"{option} is given, but nothing speaks TLS; add --https, --smtps or --starttls"
                )
    try:
        options = Options(
            http=read_address(http, "--http"),
            https=None if https is None else read_address(https, "--https"),
            smtp=read_address(smtp, "--smtp"),
            smtps=None if smtps is None else read_address(smtps, "--smtps"),
            tls=TlsOptions(
                starttls=starttls, folder=tls_dir, names=tls_name, certificate=tls_cert, key=tls_key
            ),
            ledger=ledger,
            durability=Durability(durability),
            retention=_retention(configuration.retention, keep_age, keep_count, keep_bytes),
            setup=configuration.setup,
            tenancy=configuration.tenancy,
            seed=seed,
            admin_token=admin_token,
            webhook_url=webhook_url,
            webhook_secret=webhook_secret,
            webhook_hosts=Reach[webhook_hosts.upper()],
            ready_file=ready_file,
            until_eof=until_eof,
        )
        serve(options, _greet)
    except (ServeError, StoreError) as problem:
        raise Trouble(str(problem)) from problem


def _retention(base: Retention, age: str | None, count: str | None, bytes: str | None) -> Retention:
    """Return what the plan says of retention, with what the options say in its place."""
    from simulator.config import PlanError
    from simulator.config.place import Place
    from simulator.config.retention import RETENTION_KEYS

    given: dict[str, Any] = {}
    for key, value in (("age", age), ("count", count), ("bytes", bytes)):
        if value is not None:
            field, read = RETENTION_KEYS[key]
            try:
                given[field] = read(Place(""), f"--keep-{key}", value)
            except PlanError as problem:
                raise Trouble(str(problem)) from problem
    return replace(base, **given)


def _greet(service: Service) -> None:
    from simulator.cli.greeting import say_hello

    gc.freeze()
    gc.enable()
    try:
        say_hello(service)
    except OSError:
        pass  # Nobody reads what we say any more; that is no reason not to serve.


# --- certify ----------------------------------------------------------------------------------------


@cli.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.option("--sender", metavar="FILE.toml", help="The sender to certify, in any language; default: the reference sender.")  # fmt: skip
@click.option("--profile", multiple=True, metavar="http|smtp|…", help="Only this profile of the sender; may be given again.")  # fmt: skip
@click.option("--select", metavar="PATTERN", help="Only promises whose id matches.")
@click.option(
    "--quick", is_flag=True, help="The heart of the matter only; ends incomplete, for it certifies nothing."
)
@click.option(
    "--full",
    is_flag=True,
    help="Everything, and the large matrix in the simulated world; can be taken up again.",
)
@click.option("--database", metavar="DSN", help="A server for the sender's database: postgresql://… or mysql://…; default: SQLite files.")  # fmt: skip
@click.option("--seed", type=int, metavar="N", help="Seed of the run; the same seed stages the same storms.")
@click.option("--report", metavar="DIR", help="Where certificate.json, report.html and junit.xml go.")
@click.option("--list", "list_", is_flag=True, help="List the promises and stop.")
@click.pass_context
def certify(context: click.Context, /, **given: Any) -> NoReturn:
    """Certify a sender: stage the storms, kill it, compare its promises with the ledger.

    Exit code 0 only if every MUST that applies was kept.
    """
    arguments = list(context.args)
    for parameter in context.command.params:
        value = given.get(parameter.name or "")
        option = parameter.opts[-1] if parameter.name != "list_" else "--list"
        for each in value if isinstance(value, tuple) else (value,):
            if each is True:
                arguments.append(option)
            elif each not in (None, False):
                arguments += [option, str(each)]
    _suite("certify", *arguments)


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
def replay(file: Path) -> NoReturn:
    """Play a saved counterexample again, to the same end, and show what happened when.

    Exit code 0: the same end, and nothing is wrong with it. 1: the same end, with findings. 2: FILE cannot be
    played, or it came out differently.
    """
    _suite("replay", str(file))


def _suite(*arguments: str) -> NoReturn:
    # The suite judges the simulator's ledger, so the simulator must not know it: another program runs it. It takes
    # this one's place instead of being its child, so that whoever sends a signal means the one that cleans up.
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "scenarios", *arguments])


# --- commands that speak to a running simulator -----------------------------------------------------


@cli.command()
@remote
@click.option("--advance", metavar="TIME", help="Move it ahead by so much: 90, 30s, 5m, 2h, 1d.")
@click.option("--to", metavar="INSTANT", help="Move it ahead to an instant, like 2030-01-01T00:00:00Z.")
def clock(url: str, account: str, token: str | None, advance: str | None, to: str | None) -> None:
    """Show what time it is for the provider, or move its clock ahead: keys expire, limits refill, outages end."""
    from simulator.config import PlanError
    from simulator.config.durations import read_duration
    from simulator.config.place import Place

    if advance is not None and to is not None:
        raise click.UsageError("--advance and --to both say where the clock goes; give one of them")
    try:
        seconds = None if advance is None else read_duration(Place(""), "--advance", advance)
        instant = None if to is None else datetime.fromisoformat(to)
    except PlanError as problem:
        raise Trouble(str(problem)) from problem
    except ValueError as problem:
        raise Trouble(f"--to is {to!r}; it must be an instant like 2030-01-01T00:00:00Z") from problem

    def question(client: ControlClient) -> Any:
        if seconds is not None:
            return client.advance(seconds)
        return client.clock() if instant is None else client.set_clock(instant)

    shown = ask(url, account, token, question)
    ahead = f"{shown['ahead_s']:g} s ahead of real time" if shown["ahead_s"] else "real time"
    click.echo(f"account {account}: {shown['now']} ({ahead})")


#: Columns from which on a terminal has room for everything.
WIDE = 120


@cli.command()
@remote
@click.option("--json", "as_json", is_flag=True, help="All facts as JSON.")
def ledger(url: str, account: str, token: str | None, as_json: bool) -> None:
    """List what the provider really accepted."""
    messages = ask(url, account, token, lambda client: client.messages())
    if as_json:
        print_json({"messages": messages})
        return
    if not messages:
        click.echo(f"account {account} has accepted nothing yet")
        return
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    # One line a mail: what does not fit is cut, and --json has all of it. Only what fills the line goes by ratios.
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", expand=True)
    table.add_column("at (UTC)", no_wrap=True)
    table.add_column("recipients", no_wrap=True, ratio=3)
    table.add_column("subject", no_wrap=True, ratio=3)
    table.add_column("key", no_wrap=True, ratio=3)
    if wide := console.width >= WIDE:
        table.add_column("Message-ID", no_wrap=True, ratio=3)
    table.add_column("fate", no_wrap=True)
    for each in messages:
        texts = [", ".join(each["recipients"]), each["subject"], each["key"] or "–"]
        if wide:
            texts.append(each["message_id"] or "–")
        table.add_row(
            each["accepted_at"][11:19] if not wide else each["accepted_at"][:19].replace("T", " "),
            *(escape(_harmless(text)) for text in texts),
            each["fate"] if each["fate"] == "delivered" else f"[red]{each['fate']}[/red]",
        )
    console.print(table)


def _harmless(text: str) -> str:
    """Replace what a terminal would obey: a sender may have put it there."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


#: What a verdict lists, and how it is called for people; those before `parked` make it invalid.
_FINDINGS = {
    "duplicated": "accepted too often",
    "lost": "never accepted",
    "phantom": "accepted, but nobody promised it",
    "misdirected": "accepted for somebody else, or with other bytes",
    "misreported": "accepted, but the sender says it was not",
    "parked": "waits for a person",
    "open": "still open",
    "unsent": "ended unsent, with a reason",
    "dropped": "accepted, and never delivered by the provider",
    "forgotten": "not in the ledger, which does not keep all mails any more",
}
#: So many findings of each kind are listed.
_LISTED = 20


@cli.command()
@remote
@click.option("--final", is_flag=True, help="Nothing more will come: what is still open is lost.")
@click.option("--json", "as_json", is_flag=True, help="The whole verdict as JSON.")
@click.pass_context
def verdict(
    context: click.Context, /, url: str, account: str, token: str | None, final: bool, as_json: bool
) -> NoReturn:
    """Compare what was promised with what was accepted.

    Exit code 0: every promise was kept. 1: not, or it cannot be said yet.
    """
    found = ask(url, account, token, lambda client: client.verdict(final=final))
    findings = [(name, each) for name in _FINDINGS for each in found.get(name, ())]
    if as_json:
        print_json(found)
    else:
        word = {True: "valid", False: "invalid", None: "undecided"}[found["valid"]]
        click.echo(f"{word}: {found['accepted_once']} of {found['obligations']} obligations accepted once")
        if found["gone"]:
            them = f"{found['gone']:,} mails are" if found["gone"] > 1 else "one mail is"
            click.echo(
                f"  {them} not kept any more ([retention]): of promises that they may have kept,"
                " and of other copies among them, nothing can be said"
            )
        listed: Counter[str] = Counter()
        for name, each in findings:
            listed[name] += 1
            if listed[name] > _LISTED:
                continue
            ref = f" ({each['ref']})" if each["ref"] else ""
            copies = f"{each['copies']} of {each['expected']} copies"
            ids = f": {', '.join(each['ids'])}" if each["ids"] else ""
            click.echo(f"  {name}: {each['recipient']}{ref} {_FINDINGS[name]}, {copies}{ids}")
        for name, count in listed.items():
            if count > _LISTED:
                click.echo(f"  {name}: … {count - _LISTED:,} more (--json has all)")
        _say_obedience(found["obedience"])
    context.exit(OK if found["valid"] is True else FAILED)


def _say_obedience(found: dict[str, Any]) -> None:
    """Say whether the sender came back when it was told to; that alone makes no verdict invalid."""
    if found["obeyed"] is None:
        return
    word = "obeyed" if found["obeyed"] else "did not obey"
    click.echo(f"the sender {word} when it was told to wait ({found['told']} times)")
    for each in found["too_early"]:
        what = ", ".join(each["recipients"]) or each["attempt"]
        click.echo(
            f"  too early: {what} after {each['waited_s']:g} s of {each['told_s']:g} s ({each['attempt']})"
        )
    for each in found["pressed"]:
        whom = f" for {each['scope']}" if each["scope"] else ""
        click.echo(
            f"  pressed on: {each['count']} attempts into the limit {each['limit']!r}{whom} before its time"
        )
