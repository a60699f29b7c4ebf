"""The certification as a command: options, a first look at the sender, the run, and what a person sees of it.

The scenarios are the very tests of `pytest scenarios/`, run by pytest in this process (and pytest-xdist's).
Whatever happens, Ctrl-C included, no process of a sender or a simulator outlives the command.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, cast

import click
import pytest
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from scenarios import plugin, report
from scenarios.databases import PLACES, DatabaseError, Server, server_of
from scenarios.mail import Mail
from scenarios.process_groups import GROUPS, can_find_escaped, kill_groups
from scenarios.promises import PROFILES, Level, Promise, on_profiles, selected
from scenarios.sender_file import SenderError, SenderFile, read_sender
from scenarios.service import Service, ServiceError
from scenarios.stage import Rehearsal, Stage
from simulator.client import ControlError

#: Waiting costs no processor time, so there are more scenarios at work than processors.
JOBS = min(6, 2 * (os.cpu_count() or 1) + 1)
#: Findings of one promise that are shown on the screen; the report has them all.
FINDINGS_SHOWN = 5
SIGNS = {
    "pass": "[green]✓[/]",
    "fail": "[bold red]✗[/]",
    "skip": "[dim]–[/]",
    "error": "[bold yellow]![/]",
}
#: How much of the matrix can be played.
SIZES = ("quick", "single", "full")
TONES = {"certified": "bold green", "not certified": "bold red", "incomplete": "bold yellow"}


class Listener:
    """Standard output, until nobody listens any more: `simulator certify | head` still ends with a certificate."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, or leave it if nobody is there."""
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            self._give_up()
            return len(text)

    def flush(self) -> None:
        """Flush, or leave it if nobody is there."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._give_up()

    def _give_up(self) -> None:
        # What is still in the buffer must go somewhere, or the interpreter complains when it ends.
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), self._stream.fileno())


class OneSentence(click.Group):
    """A command line whose complaints are one sentence, and that is called what people call it."""

    def main(self, *args: Any, **extra: Any) -> Any:
        try:
            return super().main(*args, **extra | {"prog_name": "simulator", "standalone_mode": False})
        except click.UsageError as problem:
            command = problem.ctx.command_path if problem.ctx is not None else "simulator"
            said = problem.format_message().rstrip(".")
            click.echo(f"simulator: {said} (see: {command} --help)", err=True)
            sys.exit(2)
        except click.ClickException as problem:
            click.echo(f"simulator: {problem.format_message()}", err=True)
            sys.exit(2)
        except (click.Abort, KeyboardInterrupt):
            sys.exit(130)


@click.group(cls=OneSentence, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Certify e-mail senders against a provider that lies."""


@main.command()
@click.option(
    "--sender",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="sender.toml; default: reference sender.",
)
@click.option(
    "--profile", type=click.Choice(PROFILES), multiple=True, help="Wire to judge on; default: all it names."
)
@click.option("--select", metavar="PATTERN", help="Promises by id: wildcards or parts, separated by commas.")
@click.option(
    "--quick/--full",
    default=None,
    help="The heart of the matter only; or everything, and in the simulated world the whole matrix, for hours.",
)
@click.option(
    "--size",
    type=click.Choice(SIZES),
    default=None,
    help="How much of the matrix is played in the simulated world [quick; with --full: full].",
)
@click.option(
    "--every",
    is_flag=True,
    help="Play crash points one by one, also those that are one and the same: several times as long.",
)
@click.option(
    "--database",
    metavar="DSN",
    help="postgresql://… or mysql://…: each scenario gets a place of its own there, in place of an SQLite file.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of contents and dice.")
@click.option(
    "--report",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("mailproof-report"),
    show_default=True,
    help="Where certificate.json, report.html and junit.xml go.",
)
@click.option(
    "--jobs", type=click.IntRange(1, 64), default=JOBS, show_default=True, help="Scenarios at once."
)
@click.option(
    "--players",
    type=click.IntRange(1, 64),
    default=os.cpu_count() or 1,
    show_default=True,
    help="Processes that play the matrix, for --size single and --full.",
)
@click.option("--list", "listing", is_flag=True, help="List the promises and stop.")
def certify(
    sender: Path | None,
    profile: tuple[str, ...],
    select: str | None,
    quick: bool | None,
    size: str | None,
    every: bool,
    database: str | None,
    seed: int,
    directory: Path,
    jobs: int,
    players: int,
    listing: bool,
) -> None:
    """Put every promise to the test and write a certificate.

    Exit code 0: every applicable MUST was kept. 1: a promise was broken. 2: nothing can be said.
    """
    console = Console(highlight=False, file=cast(TextIO, Listener(sys.stdout)))
    try:
        file = read_sender(sender or plugin.DEFAULT_SENDER)
        for each in profile:
            if each not in file.profiles:
                raise SenderError(
                    f"{file.path}: [sender] profiles does not name {each!r}; it names {', '.join(file.profiles)}"
                )
        wanted = [
            (promise, wire)
            for promise, wire in on_profiles(profile or file.profiles)
            if selected(promise.id_on(wire), select) and (promise.quick or not quick)
        ]
        if not wanted:
            raise SenderError(
                f"--select {select!r} means no promise; `simulator certify --list` shows their ids"
            )
        if listing:
            show_list(
                console,
                [(promise.id_on(wire), promise.level, promise.requirement) for promise, wire in wanted],
            )
            return
        server = None if database is None else server_for(file, database)
        if server is not None:
            server.check()
        plugin.check_report(directory)
        with no_place_left(server), no_process_left():
            arguments = ["--seed", str(seed), "--report", str(directory)]
            arguments += ["--database", database] if database else []
            arguments += ["--sender", str(sender)] if sender else []
            arguments += [word for each in profile for word in ("--profile", each)]
            arguments += ["--select", select] if select else []
            arguments += ["--quick"] if quick else []
            chosen = size or ("full" if quick is False else "quick")
            arguments += ["--size", chosen] if chosen != "quick" else []
            arguments += ["--every"] if every else []
            if chosen != "quick" and server is None and file.path == plugin.DEFAULT_SENDER:
                names = [promise.name for promise, _ in wanted if "python-world" in promise.presumes]
                arguments += [
                    "--journal",
                    str(play_matrix(console, chosen, names, directory, every=every, players=players)),
                ]
            code = run(
                console, file, profile or file.profiles, arguments, wanted, jobs, directory, server=server
            )
    except (SenderError, ServiceError, ControlError, DatabaseError, plugin.ReportError, OSError) as error:
        click.echo(f"certify: {error}", err=True)
        code = 2
    except KeyboardInterrupt:
        # Without /proc we only know process groups.
        left = "nothing" if can_find_escaped() else "nothing that stayed in its process group"
        click.echo(f"certify: interrupted; {left} is left running", err=True)
        code = 130
    sys.exit(code)


def server_for(file: SenderFile, database: str) -> Server:
    """Return the server on which this sender is certified. Raises `DatabaseError` or `SenderError`."""
    server = server_of(database)
    texts = (
        *(*file.start, *file.enqueue.command, *file.enqueue.process, *file.reset),
        *(value for _, value in file.env),
    )
    if not any("{database_url}" in each for each in texts):
        raise SenderError(
            f"{file.path}: no command and no [env] names {{database_url}}, so --database would change nothing; "
            'right would be something like DATABASE_URL = "{database_url}" in [env]'
        )
    return server


@contextmanager
def no_place_left(server: Server | None) -> Iterator[None]:
    """Give the places of this run a name of their own, and drop those that are left in the end."""
    if server is None:
        yield
        return
    with surroundings(PLACES, f"mailproof_{os.getpid()}"):
        try:
            yield
        finally:
            server.clear()


@contextmanager
def no_process_left() -> Iterator[None]:
    """Note every process group that is started from here on, and end those that are left in the end.

    What left its group is found by its environment, where the platform shows that (`process_groups.kill_marked`).
    """

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with tempfile.TemporaryDirectory(prefix="mailproof-groups-") as notes:
        # A stop by SIGTERM must clear up like one by Ctrl-C.
        handler = signal.signal(signal.SIGTERM, interrupt)
        try:
            with surroundings(GROUPS, notes):
                yield
        finally:
            kill_groups(Path(notes))
            signal.signal(signal.SIGTERM, handler)


@contextmanager
def surroundings(name: str, value: str) -> Iterator[None]:
    """Set an environment variable for a while."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def run(
    console: Console,
    file: SenderFile,
    profiles: Sequence[str],
    arguments: Sequence[str],
    wanted: Sequence[tuple[Promise, str]],
    jobs: int,
    directory: Path,
    *,
    server: Server | None = None,
) -> int:
    """Look at the sender, run the scenarios, show and write the results; return the exit code."""
    count = len(wanted)
    # One at a time needs no process beside this one.
    workers = 0 if min(jobs, count) == 1 else min(jobs, count)
    database = "" if server is None else f", on {server.check()}"
    console.print(
        f"[bold]{escape(file.name)}[/] on {' and '.join(profiles)}{database}: "
        f"{count} promise{'s' if count != 1 else ''}, {jobs} scenario{'s' if jobs != 1 else ''} at once"
    )
    for hint in file.hints:
        console.print(f"[dim]{escape(hint)}[/]", soft_wrap=True)
    with tempfile.TemporaryDirectory(prefix="mailproof-", ignore_cleanup_errors=True) as temporary:
        # What is skipped, or played in the simulated world, needs no process of this sender.
        played = {wire for promise, wire in wanted if _is_staged(promise, file)}
        if played:
            try_out(file, [wire for wire in profiles if wire in played], Path(temporary), server)
        # Plugins that happen to be installed must not change what a certificate means.
        with Live(console, count) as live, surroundings("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1"):
            results = plugin.Results(on_result=live.show)
            code = pytest.main(
                [
                    *("-c", str(Path(__file__).parent / "certify.toml")),
                    *("-p", "no:terminal", "-p", "no:cacheprovider", "-p", "xdist.plugin"),
                    *("-n", str(workers), "--dist", "worksteal", "--maxprocesses", str(jobs)),
                    *("--basetemp", str(Path(temporary) / "scenarios")),
                    # The state machines search; they put no promise to the test.
                    *("--ignore", str(Path(__file__).parent / "test_machines.py")),
                    *arguments,
                    str(Path(__file__).parent),
                ],
                plugins=[Recorder(results)],
            )
    if code == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if results.certificate is None:
        trouble = results.troubles[0] if results.troubles else f"pytest ended with code {int(code)}"
        raise ServiceError(f"no scenario could be run: {trouble}")
    show(console, results.certificate, directory)
    return exit_code(results.certificate)


def play_matrix(
    console: Console,
    size: str,
    names: Sequence[str],
    directory: Path,
    *,
    every: bool = False,
    players: int = os.cpu_count() or 1,
) -> Path:
    """Play the matrix ahead of the promises about it, so that a person sees how far it is; return the journal.

    What the journal in the report's folder knows already is not played again. `players`: processes.
    """
    # Late: who certifies a sender from outside does without the world.
    from scenarios.simulation import exhaustive
    from scenarios.simulation.matrix import Size, blocks
    from scenarios.simulation.played import Played
    from scenarios.simulation.progress import Course

    profiles = [exhaustive.PROFILE_OF[name] for name in names]
    # Who asks for every crash point is not content with what stood for it.
    journal = directory / f"matrix-{size}{'-every' if every else ''}.jsonl"
    todo = blocks(Size(size), profiles)
    course = Course(todo, known=exhaustive.read_journal(journal))
    shown = said = 0
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task("the matrix", total=1.0)

        def each(played: Played) -> None:
            nonlocal shown, said
            course.ends(played)
            progress.update(task, completed=course.part, description=f"the matrix: {course}")
            for failure in played.failures[:1] if shown < FINDINGS_SHOWN else []:
                shown += 1
                finding = failure.findings[0]
                progress.console.print(
                    f"{SIGNS['fail']} {escape(failure.said)}  {escape(finding['kind'])}: {escape(finding['sentence'])}",
                    soft_wrap=True,
                )
            if not console.is_terminal and (int(course.part * 20) > said or course.is_over):
                said = int(course.part * 20)
                console.print(f"the matrix: {course}", soft_wrap=True)
                console.file.flush()

        played = exhaustive.play(todo, jobs=players, journal=journal, each=each, every=every)
    by_profile = [
        exhaustive.summary(profile, Size(size), [each for each in played if each.profile == profile])
        for profile in profiles
    ]
    console.print(f"the matrix, size {size}: {exhaustive.told(by_profile)}")
    return journal


def _is_staged(promise: Promise, file: SenderFile) -> bool:
    return "python-world" not in promise.presumes and file.abilities.issuperset(promise.presumes)


def try_out(file: SenderFile, profiles: Sequence[str], workdir: Path, server: Server | None = None) -> None:
    """Start the sender once on each wire and hand it one mail, so that what cannot work is said once."""
    place = workdir / "first-look"
    place.mkdir()
    with Service(place) as service:
        for profile in profiles:
            room = place / profile
            room.mkdir()
            rehearsal = Rehearsal(
                file=file, profile=profile, seed=0, name=f"first-look-{profile}", database=server
            )
            with Stage(service, rehearsal, room) as stage:
                stage.start()
                probe: Mail = stage.mail("first-look")
                stage.enqueue(probe, alone=True)
                stage.sender.status()


class Recorder:
    """Brings our `Results` into the pytest session, in place of the one the plugin would make."""

    def __init__(self, results: plugin.Results) -> None:
        self._results = results

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        config.pluginmanager.register(self._results, plugin.RESULTS)


def exit_code(certificate: Mapping[str, Any]) -> int:
    """Return 0, 1 or 2 for a certificate."""
    binding = [each["status"] for each in certificate["promises"] if each["level"] == Level.MUST.value]
    if "fail" in binding:
        return 1
    return 2 if "error" in binding or "pass" not in binding else 0


# --- what a person sees -----------------------------------------------------------------------------


class Live:
    """A line per promise as it ends; on a terminal with a bar below."""

    def __init__(self, console: Console, count: int) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("storm and calm", total=count)

    def __enter__(self) -> Live:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, result: report.Result) -> None:
        """Say what became of a promise."""
        more = result.reason
        if result.status == "fail" and (findings := result.evidence.get("findings")):
            first, others = findings[0], len(findings) - 1
            more = f"{first['kind']}: {first['recipient']}: {first['sentence']}"
            more += f" (and {others} more)" if others else ""
        more = more.strip().splitlines()[-1] if more.strip() else ""
        line = f"{SIGNS[result.status]} {escape(result.id)} [dim]{result.duration_s:.1f} s[/]"
        self._progress.console.print(line + (f"  {escape(more)}" if more else ""), soft_wrap=True)
        self._progress.advance(self._task)


def show_list(console: Console, rows: Sequence[tuple[str, Level, str]]) -> None:
    """Print the promises."""
    table = Table(box=None, pad_edge=False)
    for heading in ("promise", "level", "requirement"):
        table.add_column(heading, no_wrap=heading != "requirement")
    for promise_id, level, requirement in rows:
        table.add_row(promise_id, level.value, escape(requirement))
    console.print(table)


def show(console: Console, certificate: Mapping[str, Any], directory: Path) -> None:
    """Print scoreboard, failures with their timelines, and the verdict."""
    console.print()
    console.print(scoreboard_of(certificate))
    for entry in certificate["promises"]:
        if entry["status"] in ("fail", "error"):
            _show_trouble(console, entry)
    skipped = [entry for entry in certificate["promises"] if entry["status"] == "skip"]
    if skipped:
        console.print("\n[dim]Not applicable:[/]")
        for entry in skipped:
            console.print(f"  [dim]– {escape(entry['id'])}: {escape(entry['reason'])}[/]")
    for each in certificate["not_claimable"]:
        console.print(f"\n[dim]Not claimable: {escape(each['claim'])}. {escape(each['why'])}[/]")
    for each in certificate["coverage"]["matrix"]:
        console.print(
            f"[dim]{each['profile']}: {each['cells']:,} of {each['total']:,} cells covered by {each['played']:,} worlds, "
            f"{each['skipped']:,} skipped, {each['failed']:,} failed[/]"
        )
    totals, result = certificate["totals"], certificate["result"]
    console.print(
        f"\n[{TONES[result]}]{escape(certificate['sender']['name'])}: {result}[/]  "
        f"{totals['pass']} kept, {totals['fail']} broken, {totals['skip']} not applicable, "
        f"{totals['error']} not judged"
        + (f", {len(certificate['not_run'])} not run" if certificate["not_run"] else "")
    )
    console.print(
        f"[dim]report: {escape(str(directory / 'report.html'))}   again: {escape(certificate['replay'])}[/]"
    )


def scoreboard_of(certificate: Mapping[str, Any]) -> Table:
    """Return the scoreboard: a row per family, a column per wire."""
    table = Table(box=None, pad_edge=False)
    table.add_column("family")
    for profile in certificate["sender"]["profiles"]:
        table.add_column(profile)
    for row in report.scoreboard(certificate):
        cells = []
        for entries in row["cells"].values():
            kept = sum(entry["status"] == "pass" for entry in entries)
            applicable = sum(entry["status"] != "skip" for entry in entries)
            signs = "".join(SIGNS[entry["status"]] for entry in entries)
            cells.append(f"{signs} [dim]{kept}/{applicable}[/]" if entries else "")
        table.add_row(row["family"], *cells)
    return table


def _show_trouble(console: Console, entry: Mapping[str, Any]) -> None:
    console.print(
        f"\n{SIGNS[entry['status']]} [bold]{escape(entry['id'])}[/]  {escape(entry['requirement'])}"
    )
    evidence = entry["evidence"]
    if not evidence.get("findings"):
        console.print(Padding(escape(entry["reason"] or entry["actual"]), (0, 0, 0, 2)))
    findings = evidence.get("findings", [])
    for finding in findings[:FINDINGS_SHOWN]:
        console.print(
            f"  [red]{escape(finding['kind'])}[/] {escape(finding['recipient'])}: {escape(finding['sentence'])}"
        )
        for what, values in (("ref", [finding["ref"]]), ("ids", finding["ids"]), ("Message-IDs", finding["message_ids"]), ("keys", finding["keys"])):  # fmt: skip
            if any(values):
                console.print(f"    [dim]{what}: {escape(', '.join(values))}[/]")
    if len(findings) > FINDINGS_SHOWN:
        console.print(f"  [dim]and {len(findings) - FINDINGS_SHOWN} more, see the report[/]")
    for line in report.timeline_lines(entry):
        console.print(f"  [dim]{escape(line)}[/]", soft_wrap=True)
    if (kept := evidence.get("replay")) is not None:
        for line in kept["timeline"]:
            console.print(f"  [dim]{escape(line)}[/]", soft_wrap=True)
        console.print(f"  [dim]the first of them again: {escape(kept['command'])}[/]", soft_wrap=True)
    console.print(f"  [dim]again: {escape(entry['replay'])}[/]", soft_wrap=True)
