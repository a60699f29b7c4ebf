"""Promises under pytest: options, which scenario runs on which wire, the stage fixture, and the results.

The same scenarios run under plain `pytest scenarios/` and under `certify`; both end in `Results`, which
`scenarios.report` turns into a certificate. Works with and without pytest-xdist.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scenarios import report
from scenarios.clock import now
from scenarios.databases import DatabaseError, Server, server_of
from scenarios.promises import BY_NAME, Promise, selected
from scenarios.sender_file import SenderError, SenderFile, read_sender
from scenarios.service import Service, ServiceError
from scenarios.stage import Broken, Invalid, Rehearsal, Stage
from simulator.client import ControlError

if TYPE_CHECKING:
    # The world costs half a second to load; who judges a sender from outside never needs it.
    from scenarios.simulation.exhaustive import Matrix

DEFAULT_SENDER = Path(__file__).parent / "senders" / "reference.toml"
PROPERTY = "mailproof"
RESULTS = "mailproof-results"
#: Said of the simulated world where a server was given.
ONLY_EMBEDDED = "the simulated world has SQLite only: run it without --database"
#: Fixtures on which a promise is put to the test: real processes, or the simulated world.
PLACES = ("stage", "matrix")

Scenario = Callable[..., None]


def promises(*names: str) -> Callable[[Scenario], Scenario]:
    """Mark a scenario with the promises it puts to the test; it runs once for each, on each of its wires."""
    for name in names:
        assert name in BY_NAME, f"no promise is called {name!r}"

    def mark(scenario: Scenario) -> Scenario:
        marked: Scenario = pytest.mark.promises(*names)(scenario)
        return marked

    return mark


@dataclass(frozen=True, slots=True)
class Cue:
    """What a scenario is run for: one promise on one wire."""

    promise: Promise
    profile: str

    @property
    def id(self) -> str:
        return self.promise.id_on(self.profile)


@dataclass(slots=True, eq=False)
class Results:
    """The results of a session, in the order in which they came."""

    began_at: str = field(default_factory=lambda: now().isoformat())
    results: dict[str, report.Result] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)
    """What kept pytest itself from working (a scenario file that cannot be imported)."""
    on_result: Callable[[report.Result], None] | None = None
    certificate: dict[str, Any] | None = None
    """Once the session is over, if anything was run."""

    def add(self, result: report.Result) -> None:
        known = self.results.get(result.id)
        # Trouble while clearing up must not hide what was found before.
        if known is not None and known.status in ("fail", "error"):
            return
        self.results[result.id] = result
        if self.on_result is not None:
            self.on_result(result)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        told = dict(report.user_properties).get(PROPERTY)
        if told is not None and (report.when == "call" or report.outcome != "passed"):
            self.add(_result(json.loads(str(told)), report))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.troubles.append(str(report.longrepr))


def _result(told: dict[str, Any], outcome: pytest.TestReport) -> report.Result:
    status = told.get("status") or {"passed": "pass", "skipped": "skip", "failed": "error"}[outcome.outcome]
    reason = told.get("reason", "")
    if status == "error" and not reason:
        reason = str(outcome.longrepr)[-2000:]
    if status == "skip" and not reason and isinstance(outcome.longrepr, tuple):
        reason = str(outcome.longrepr[2]).removeprefix("Skipped: ")
    return report.Result(
        promise=BY_NAME[told["promise"]],
        profile=told["profile"],
        status=status,
        reason=reason,
        duration_s=round(outcome.duration, 3),
        evidence=told.get("evidence", {}),
    )


# --- hooks ------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mailproof", "certification of an e-mail sender")
    group.addoption("--sender", default=None, help="sender.toml of the sender to judge (default: reference)")
    group.addoption(
        "--profile", action="append", default=None, help="wire to judge it on: http or smtp (repeatable)"
    )
    group.addoption("--select", default=None, help="promises by id: wildcards or parts, separated by commas")
    group.addoption("--quick", action="store_true", default=False, help="the heart of the matter only")
    group.addoption(
        "--size",
        default="quick",
        choices=("quick", "single", "full"),
        help="how much of the matrix is played in the simulated world (default: quick)",
    )
    group.addoption(
        "--every",
        action="store_true",
        default=False,
        help="play crash points one by one that are one and the same",
    )
    group.addoption("--journal", default=None, metavar="FILE", help="what of the matrix is played already")
    group.addoption(
        "--database",
        default=None,
        metavar="DSN",
        help="a server on which each scenario gets a place of its own",
    )
    group.addoption("--seed", type=int, default=1, help="seed of contents and dice (default: 1)")
    group.addoption("--report", default=None, metavar="DIR", help="write certificate and report into DIR")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "promises(*names): the promises a scenario puts to the test")
    config.addinivalue_line("markers", "long: takes a while; a certification plays it all the same")
    # Of pytest-timeout, which need not be there.
    config.addinivalue_line("markers", "timeout(seconds): how long a test may take")
    is_worker = hasattr(config, "workerinput")
    directory = config.getoption("--report")
    if not is_worker and directory is not None:
        try:
            check_report(Path(directory))
        except ReportError as error:
            raise pytest.UsageError(str(error)) from None
    if not is_worker and (server := server_in(config)) is not None:
        try:
            config.stash[DATABASE] = server.check()
        except DatabaseError as error:
            raise pytest.UsageError(str(error)) from None
    if not is_worker and config.pluginmanager.get_plugin(RESULTS) is None:
        config.pluginmanager.register(Results(), RESULTS)


def server_in(config: pytest.Config) -> Server | None:
    """Return the database server of `--database`. Raises `pytest.UsageError`."""
    given = config.getoption("--database")
    try:
        return server_of(given) if given else None
    except DatabaseError as error:
        raise pytest.UsageError(str(error)) from None


def sender_of(config: pytest.Config) -> SenderFile:
    """Return the sender that is judged. Raises `SenderError`."""
    given = config.getoption("--sender")
    return read_sender(Path(given) if given else DEFAULT_SENDER)


def profiles_of(config: pytest.Config, file: SenderFile) -> tuple[str, ...]:
    """Return the wires to judge on: those asked for, else those the sender names. Raises `SenderError`."""
    asked = tuple(dict.fromkeys(config.getoption("--profile") or ()))
    for profile in asked:
        if profile not in file.profiles:
            raise SenderError(
                f"{file.path}: [sender] profiles does not name {profile!r}; it names {', '.join(file.profiles)}"
            )
    return asked or file.profiles


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    mark = metafunc.definition.get_closest_marker("promises")
    place = next((name for name in PLACES if name in metafunc.fixturenames), None)
    if mark is None or place is None:
        return
    try:
        profiles = profiles_of(metafunc.config, sender_of(metafunc.config))
    except SenderError as error:
        raise pytest.UsageError(str(error)) from None
    cues = [
        Cue(BY_NAME[name], profile)
        for profile in profiles
        for name in mark.args
        if profile in BY_NAME[name].profiles
    ]
    metafunc.parametrize(place, cues, indirect=True, ids=[cue.id for cue in cues])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    pattern, quick = config.getoption("--select"), config.getoption("--quick")
    left_out = [
        item
        for item in items
        if (cue := cue_of(item)) is not None
        and (not selected(cue.id, pattern) or (quick and not cue.promise.quick))
    ]
    if left_out:
        out = set(left_out)
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in out]
    # Long ones first, so that no worker is left alone with one at the end; the rest keeps its order.
    items.sort(key=lambda item: -_weight(item))


def _weight(item: pytest.Item) -> int:
    cue = cue_of(item)
    return 0 if cue is None else _WEIGHTS.get(cue.promise.name, 1)


_WEIGHTS = {
    "exhaustive.keys": 9,
    "exhaustive.keys-forgotten": 9,
    "exhaustive.lookup": 9,
    "exhaustive.at-most-once": 9,
    "exhaustive.at-least-once": 9,
    "exhaustive.limited": 4,
    "exhaustive.spare": 4,
    "exhaustive.batches": 4,
    "exhaustive.webhooks": 4,
    "exhaustive.webhooks-in-doubt": 4,
    "workers.two": 5,
    "content.large": 4,
    "crash.after-acceptance": 3,
    "crash.after-claim": 3,
}


def cue_of(item: pytest.Item) -> Cue | None:
    """Return what a collected test is run for."""
    callspec = getattr(item, "callspec", None)
    params = callspec.params if callspec is not None else {}
    return next((each for name in PLACES if isinstance(each := params.get(name), Cue)), None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    made = yield
    cue = cue_of(item)
    if cue is None:
        return made
    told: dict[str, Any] = {"promise": cue.promise.name, "profile": cue.profile}
    error = call.excinfo.value if call.excinfo is not None else None
    if isinstance(error, Broken):
        told["status"] = "fail"
        made.longrepr = str(error)
    elif isinstance(error, Invalid | SenderError | ServiceError | ControlError | DatabaseError):
        told |= {"status": "error", "reason": str(error)}
        made.longrepr = f"{type(error).__name__}: {error}"
    elif error is not None and not isinstance(error, pytest.skip.Exception):
        told["status"] = "error"
    set_up = item.stash.get(STAGE, None)
    if call.when != "setup" and set_up is not None:
        told["evidence"] = set_up.evidence()
        if error is None:
            told["reason"] = told["evidence"].get("not_judged", "")
    made.user_properties = [pair for pair in made.user_properties if pair[0] != PROPERTY]
    made.user_properties.append((PROPERTY, json.dumps(told)))
    return made


STAGE: pytest.StashKey[Stage | Matrix] = pytest.StashKey()
#: Name and version of the server that was given.
DATABASE: pytest.StashKey[str] = pytest.StashKey()


def pytest_sessionfinish(session: pytest.Session) -> None:
    directory = session.config.getoption("--report")
    results = session.config.pluginmanager.get_plugin(RESULTS)
    if directory is None or not isinstance(results, Results) or not results.results:
        return
    results.certificate = write(session.config, results, Path(directory))


#: What a report consists of.
REPORT = ("certificate.json", "report.html", "junit.xml")


class ReportError(Exception):
    """The report cannot be written where it was asked for. One sentence."""


def check_report(directory: Path) -> None:
    """Try to write into the report's folder before anything runs, and leave nothing. Raises `ReportError`."""
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory) as probe:
            probe.write(b"?")
        for name in REPORT:
            if (file := directory / name).exists():
                file.open("ab").close()
    except OSError as error:
        raise ReportError(
            f"--report {str(directory)!r} cannot be written: {error.strerror or error}; "
            "right would be a folder, there or not, that may be written"
        ) from error
    finally:
        for each in missing:
            # Whoever comes to nothing leaves no folder; another run may have filled it meanwhile.
            with contextlib.suppress(OSError):
                each.rmdir()


def certificate_of(config: pytest.Config, results: Results) -> dict[str, Any]:
    """Return the certificate of a finished session."""
    file = sender_of(config)
    profiles = profiles_of(config, file)
    seed, pattern, quick = (config.getoption(name) for name in ("--seed", "--select", "--quick"))
    return report.certificate(
        sender=report.Subject(
            name=file.name,
            version=file.version,
            adapter=file.path.name,
            abilities=tuple(sorted(file.abilities)),
            policy=file.policy,
            profiles=profiles,
            hints=file.hints,
            database=config.stash.get(DATABASE, report.EMBEDDED),
        ),
        results=list(results.results.values()),
        seed=seed,
        began_at=results.began_at,
        ended_at=now().isoformat(),
        complete=pattern is None and not quick,
        replay=replay_command(
            config, ("--sender", "--database", "--select", "--profile", "--quick", "--size", "--every")
        ),
        replay_one=replay_command(config, ("--sender", "--database", "--size", "--every")),
    )


def replay_command(config: pytest.Config, options: Sequence[str]) -> str:
    """Return the command that runs the same again, with those of these options that were given."""
    words = ["simulator", "certify", "--seed", str(config.getoption("--seed"))]
    server = server_in(config)
    for option in options:
        match config.getoption(option):
            case str() if option == "--database" and server is not None:
                words += [option, server.shown]  # a report is shown around; the password is not
            case None | False | "quick":
                pass
            case True:
                words.append(option)
            case list(values):
                words += [word for value in values for word in (option, str(value))]
            case value:
                words += [option, str(value)]
    return shlex.join(words)


def write(config: pytest.Config, results: Results, directory: Path) -> dict[str, Any]:
    """Write certificate.json, report.html and junit.xml; return the certificate. What is there is kept beside."""
    certificate = certificate_of(config, results)
    template = (Path(__file__).parent / "report.html").read_text(encoding="utf-8")
    directory.mkdir(parents=True, exist_ok=True)
    put_aside(directory)
    texts = (
        report.canonical(certificate, indent=2) + "\n",
        report.page(certificate, template),
        report.junit(certificate),
    )
    for name, text in zip(REPORT, texts, strict=True):
        (directory / name).write_text(text, encoding="utf-8")
    return certificate


def put_aside(directory: Path) -> None:
    """Move the report that is in this folder, if there is one, to `earlier/1`, `earlier/2` and so on: none is lost."""
    there = [file for name in REPORT if (file := directory / name).exists()]
    if not there:
        return
    earlier = directory / "earlier"
    earlier.mkdir(exist_ok=True)
    number = 1 + max((int(each.name) for each in earlier.iterdir() if each.name.isdecimal()), default=0)
    (earlier / str(number)).mkdir()
    for file in there:
        file.rename(earlier / str(number) / file.name)


# --- fixtures ---------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One simulator process for all scenarios of this (xdist) process."""
    with Service(tmp_path_factory.mktemp("simulator"), seed=request.config.getoption("--seed")) as running:
        yield running


@pytest.fixture
def stage(request: pytest.FixtureRequest, service: Service, tmp_path: Path) -> Iterator[Stage]:
    """The stage of one scenario. Skips, visibly, what the sender does not claim to be able to do."""
    cue: Cue = request.param
    file = sender_of(request.config)
    _skip_unless_able(cue, file)
    rehearsal = Rehearsal(
        file=file,
        profile=cue.profile,
        seed=request.config.getoption("--seed"),
        name=cue.id.replace(".", "-"),
        database=server_in(request.config),
    )
    with Stage(service, rehearsal, tmp_path) as set_up:
        request.node.stash[STAGE] = set_up
        yield set_up


@pytest.fixture
def matrix(request: pytest.FixtureRequest) -> Matrix:
    """The matrix of one profile in the simulated world. Skips, visibly, who cannot be run there."""
    from scenarios.simulation.exhaustive import PROFILE_OF, Matrix

    cue: Cue = request.param
    file = sender_of(request.config)
    _skip_unless_able(cue, file)
    if request.config.getoption("--database"):
        pytest.skip(ONLY_EMBEDDED)
    sender = "reference"
    if file.path != DEFAULT_SENDER:
        from scenarios.simulation.python_sender import world_profiles

        if PROFILE_OF[cue.promise.name] not in world_profiles(file.path):
            pytest.skip(f"[world] profiles of the sender does not name {PROFILE_OF[cue.promise.name]!r}")
        sender = str(file.path.resolve())
    journal, report = (request.config.getoption(name) for name in ("--journal", "--report"))
    played = Matrix(
        cue.promise.name,
        size=request.config.getoption("--size"),
        # Beside others of its kind, one process for each is enough.
        jobs=1 if hasattr(request.config, "workerinput") else 2,
        journal=Path(journal) if journal else None,
        sender=sender,
        every=request.config.getoption("--every"),
        replays=Path(report) if report else None,
    )
    request.node.stash[STAGE] = played
    return played


def _skip_unless_able(cue: Cue, file: SenderFile) -> None:
    missing = [ability for ability in cue.promise.presumes if ability not in file.abilities]
    if missing:
        pytest.skip(f"the sender does not declare the ability {missing[0]!r}")


@pytest.fixture
def promised(request: pytest.FixtureRequest, stage: Stage) -> Promise:
    """The promise this run is about."""
    cue = cue_of(request.node)
    assert cue is not None
    return cue.promise
