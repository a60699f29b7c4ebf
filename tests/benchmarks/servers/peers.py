"""What else engineers point their senders at: fake mail servers and stubbed providers, where they are installed.

    pip install fakesmtpd 'moto[server]'
    npm install --global maildev aws-ses-v2-local mountebank

Each as it comes, with what it does by default: none of them keeps a ledger, honours a key, or injects anything while it
is measured.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tests.benchmarks.servers import load
from tests.benchmarks.servers.contenders import SERVER_CPU, Contender, Started
from tests.benchmarks.servers.load import Load, Measured

#: Amazon SES, API version 2, `SendEmail`.
_SES = "/v2/email/outbound-emails"
_SES_MAIL = {
    "FromEmailAddress": load.BODY["from"],
    "Destination": {"ToAddresses": load.BODY["to"]},
    "Content": {
        "Simple": {"Subject": {"Data": load.BODY["subject"]}, "Body": {"Text": {"Data": load.BODY["text"]}}}
    },
}
#: Both look at its form, neither at its signature.
_SIGNED = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=x/20261130/us-east-1/ses/aws4_request, SignedHeaders=host, Signature=0"
}

Command = Callable[[int, int, Path], Sequence[str]]
"""How a peer is started: with its SMTP port, its HTTP port and a folder of its own."""


def _peer(name: str, program: str, command: Command) -> Contender:
    def start(smtp: int, http: int) -> Started:
        folder = Path(tempfile.mkdtemp())
        words = list(command(smtp, http, folder))
        if shutil.which("taskset"):
            words = ["taskset", "-c", str(SERVER_CPU), *words]
        process = subprocess.Popen(
            words,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

        def stop() -> None:
            # Some are a script around the program.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            shutil.rmtree(folder, ignore_errors=True)

        return Started(process.pid, stop)

    return Contender(name=name, start=start, needs=(program,))


def fakesmtpd() -> Contender:
    """FakeSMTPd (Python): writes an mbox."""
    return _peer(
        "FakeSMTPd",
        "fakesmtpd",
        lambda smtp, http, folder: (
            *("fakesmtpd", "--bind", "127.0.0.1", "--port", str(smtp)),
            *("--output-filename", str(folder / "mbox")),
        ),
    )


def maildev() -> Contender:
    """MailDev (Node.js): parses each mail and shows it."""
    return _peer(
        "MailDev",
        "maildev",
        lambda smtp, http, folder: (
            *("maildev", "--ip", "127.0.0.1", "--smtp", str(smtp)),
            *("--web", str(http), "--web-ip", "127.0.0.1"),
        ),
    )


def ses_local() -> Contender:
    """aws-ses-v2-local (Node.js): keeps mails in memory."""
    return _peer(
        "aws-ses-v2-local",
        "aws-ses-v2-local",
        lambda smtp, http, folder: ("aws-ses-v2-local", "--host", "127.0.0.1", "--port", str(http)),
    )


def moto() -> Contender:
    """moto's server (Python): keeps mails in memory."""
    return _peer(
        "moto (sesv2)",
        "moto_server",
        lambda smtp, http, folder: ("moto_server", "-H", "127.0.0.1", "-p", str(http)),
    )


def mountebank() -> Contender:
    """mountebank (Node.js) with a stub that says the same to everybody."""

    def command(smtp: int, http: int, folder: Path) -> Sequence[str]:
        answer = {
            "statusCode": 200,
            "headers": {"Content-Type": "application/json", "Connection": "keep-alive"},
            "body": json.dumps({"id": "msg_0"}),
        }
        imposter = {"port": http, "protocol": "http", "stubs": [{"responses": [{"is": answer}]}]}
        config = folder / "imposters.json"
        config.write_text(json.dumps({"imposters": [imposter]}))
        # Its own port is not used: SMTP is not spoken here.
        return (
            *("mb", "start", "--configfile", str(config), "--port", str(smtp), "--localOnly"),
            *("--nologfile", "--loglevel", "error", "--pidfile", str(folder / "pid")),
        )

    return _peer("mountebank, a stub", "mb", command)


ses: Load = partial(load.http, path=_SES, body=_SES_MAIL, headers=_SIGNED)


def ses_verified(port: int, seconds: float) -> Measured:
    """The same behind a sender's address that is verified, without which moto takes nothing."""
    verify = urllib.request.Request(
        f"http://127.0.0.1:{port}/v2/email/identities",
        json.dumps({"EmailIdentity": load.BODY["from"]}).encode(),
        {"Content-Type": "application/json", **_SIGNED},
    )
    with contextlib.suppress(urllib.error.HTTPError):  # It was, in the run before.
        urllib.request.urlopen(verify, timeout=10).close()
    return ses(port, seconds)
