"""The fixture `mail_provider`: a fresh account of a simulator for each test. pytest finds it by its entry point.

Nothing of the simulator is loaded, let alone started, before a test asks for the fixture. One simulator serves a whole
run (under xdist: each worker has one of its own); an account's name is used once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from simulator.testing import MailProvider, Server

_NUMBERS = count(1)
_PROVIDER = pytest.StashKey["MailProvider"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the fixture."""
    group = parser.getgroup("mailproof", "mail provider that lies on purpose")
    group.addoption(
        "--mail-provider-url",
        metavar="URL",
        help="use the simulator that runs there, instead of starting one",
    )
    group.addoption(
        "--mail-provider-token", metavar="T", help="the admin token of the simulator at --mail-provider-url"
    )
    group.addoption(
        "--mail-provider-smtp",
        metavar="HOST:PORT",
        default="127.0.0.1:1025",
        help="where the SMTP of the simulator at --mail-provider-url is (default: 127.0.0.1:1025)",
    )

    group.addoption(
        "--mail-provider-tls",
        action="store_true",
        help="serve senders under TLS, too: mail_provider.https, .smtps and STARTTLS, with the CA at .ca",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "mail_provider(plan=None): the plan that the fixture mail_provider begins with,"
        ' for example "greylist" or ["503 first 2"]',
    )


@pytest.fixture(scope="session")
def mail_provider_server(request: pytest.FixtureRequest) -> Iterator[Server | None]:
    """The simulator behind `mail_provider`; None: somebody else's, see `--mail-provider-url`."""
    if request.config.getoption("--mail-provider-url"):
        yield None
        return
    from simulator.testing import Server

    with Server(tls=request.config.getoption("--mail-provider-tls")) as server:
        yield server


@pytest.fixture
def mail_provider(
    request: pytest.FixtureRequest, mail_provider_server: Server | None
) -> Iterator[MailProvider]:
    """A mail provider with an account of its own: nothing was sent yet, nothing goes wrong."""
    from simulator.testing import MailProvider

    config = request.config
    under_tls: dict[str, str | None] = {}
    if mail_provider_server is None:
        url, smtp = config.getoption("--mail-provider-url"), config.getoption("--mail-provider-smtp")
    else:
        url, smtp = mail_provider_server.facts["http"], mail_provider_server.facts["smtp"]
        under_tls = mail_provider_server.under_tls
    worker = getattr(config, "workerinput", {}).get("workerid", "main")
    name = f"{request.node.name[:80]}-{worker}-{next(_NUMBERS)}-{_run()}"
    account = "".join(letter if letter.isalnum() or letter in "-_.[]" else "_" for letter in name)
    token = config.getoption("--mail-provider-token")
    with MailProvider(url, smtp, account, token=token, **under_tls) as provider:
        marker = request.node.get_closest_marker("mail_provider")
        if marker is not None:
            provider.plan(*marker.args, **marker.kwargs)
        elif mail_provider_server is None:
            # A fresh account begins with the plan that the simulator was started with.
            provider.plan(None)
        request.node.stash[_PROVIDER] = provider
        try:
            yield provider
        finally:
            provider.reset()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    """Show with a failure what the provider has seen."""
    report = yield
    provider = item.stash.get(_PROVIDER, None)
    if provider is not None and report.when == "call" and report.failed:
        report.sections.append(("mail provider", _seen(provider)))
    return report


@cache
def _run() -> str:
    """Return what tells this process from all others that may share its simulator."""
    from simulator.clock import fresh_seed

    return f"{fresh_seed():08x}"


def _seen(provider: MailProvider) -> str:
    from simulator.testing import ControlError

    try:
        return provider.seen()
    except ControlError as problem:
        return str(problem)
