"""SMTP clients that others wrote, each behind the same few words: hand over this mail, and tell what you think of it."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import smtplib
import ssl
import subprocess
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

import aiosmtplib

PATIENCE_S = 20.0
SENDER = "shop@x.example"


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Where to hand it over, and how."""

    host: str
    port: int
    tls: str = "off"
    """`off`, `starttls` or `first`."""
    ca: str = ""
    user: str = "shop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the client says became of it."""

    sent: bool
    words: str


class Client(Protocol):
    def __call__(self, mail: Path, to: str, where: Where) -> Told: ...


def with_smtplib(mail: Path, to: str, where: Where) -> Told:
    try:
        context = ssl.create_default_context(cafile=where.ca) if where.tls != "off" else None
        if where.tls == "first":
            connection: smtplib.SMTP = smtplib.SMTP_SSL(
                where.host, where.port, context=context, timeout=PATIENCE_S
            )
        else:
            connection = smtplib.SMTP(where.host, where.port, timeout=PATIENCE_S)
        with connection:
            if where.tls == "starttls":
                connection.starttls(context=context)
            connection.login(where.user, "secret")
            connection.sendmail(SENDER, [to], mail.read_bytes())
    except (smtplib.SMTPException, OSError) as problem:
        return Told(sent=False, words=str(problem))
    return Told(sent=True, words="")


def with_aiosmtplib(mail: Path, to: str, where: Where) -> Told:
    raw = mail.read_bytes()

    async def send() -> None:
        context = ssl.create_default_context(cafile=where.ca) if where.tls != "off" else None
        await aiosmtplib.send(
            raw,
            sender=SENDER,
            recipients=[to],
            hostname=where.host,
            port=where.port,
            username=where.user,
            password="secret",
            use_tls=where.tls == "first",
            start_tls=where.tls == "starttls",
            tls_context=context,
            timeout=PATIENCE_S,
        )

    try:
        asyncio.run(send())
    except (aiosmtplib.SMTPException, OSError) as problem:
        return Told(sent=False, words=str(problem))
    finally:
        # It does not wait until TLS is taken down before its loop ends; whoever comes next would be told of the socket.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
    return Told(sent=True, words="")


def with_swaks(mail: Path, to: str, where: Where) -> Told:
    tls = {"off": [], "starttls": ["--tls"], "first": ["--tls-on-connect"]}[where.tls]
    trust = ["--tls-verify", "--tls-ca-path", where.ca] if tls else []
    return _run(
        ["swaks", "--server", where.host, "--port", str(where.port), "--helo", "c.example"],
        ["--from", SENDER, "--to", to, "--data", f"@{mail}", "--timeout", f"{PATIENCE_S:g}"],
        ["--auth", "LOGIN", "--auth-user", where.user, "--auth-password", "secret", *tls, *trust],
    )


def with_msmtp(mail: Path, to: str, where: Where) -> Told:
    tls = "off" if where.tls == "off" else "on"
    trust = [] if tls == "off" else [f"--tls-trust-file={where.ca}"]
    return _run(
        ["msmtp", "--file=/dev/null", f"--host={where.host}", f"--port={where.port}", f"--from={SENDER}"],
        ["--auth=plain", f"--user={where.user}", "--passwordeval=echo secret", f"--tls={tls}", *trust],
        [f"--tls-starttls={'on' if where.tls == 'starttls' else 'off'}", "--timeout=20", "--", to],
        stdin=mail.read_bytes().replace(b"\r\n", b"\n"),
    )


def with_curl(mail: Path, to: str, where: Where) -> Told:
    scheme = "smtps" if where.tls == "first" else "smtp"
    trust = [] if where.tls == "off" else ["--ssl-reqd", "--cacert", where.ca]
    return _run(
        ["curl", "--silent", "--show-error", "--verbose", "--max-time", f"{PATIENCE_S:g}"],
        [f"{scheme}://{where.host}:{where.port}/c.example", "--user", f"{where.user}:secret", *trust],
        ["--mail-from", SENDER, "--mail-rcpt", to, "--upload-file", str(mail)],
    )


_NODEMAILER = """
const [mail, to, where] = JSON.parse(process.argv[1]);
const transport = require('nodemailer').createTransport({
  host: where.host, port: where.port, secure: where.tls === 'first', requireTLS: where.tls === 'starttls',
  ignoreTLS: where.tls === 'off', auth: { user: where.user, pass: 'secret' },
  tls: where.ca ? { ca: require('fs').readFileSync(where.ca) } : {},
});
transport.sendMail({ envelope: { from: where.sender, to }, raw: { path: mail } })
  .then(() => process.exit(0), (problem) => { console.error(String(problem)); process.exit(1); });
"""


def with_nodemailer(mail: Path, to: str, where: Where) -> Told:
    facts = {"host": where.host, "port": where.port, "tls": where.tls, "ca": where.ca, "user": where.user}
    said = json.dumps([str(mail), to, facts | {"sender": SENDER}])
    return _run(["node", "-e", _NODEMAILER, said], environment=_with_modules())


def _run(*words: list[str], stdin: bytes = b"", environment: Mapping[str, str] | None = None) -> Told:
    command = [word for some in words for word in some]
    done = subprocess.run(
        command, input=stdin, capture_output=True, timeout=2 * PATIENCE_S, check=False, env=environment
    )
    return Told(sent=done.returncode == 0, words=(done.stdout + done.stderr).decode("utf-8", "replace"))


@cache
def _with_modules() -> dict[str, str]:
    """Return an environment in which node finds what `npm install --global` has installed: by itself it does not."""
    places = [os.environ.get("NODE_PATH", "")]
    if shutil.which("npm") is not None:
        asked = subprocess.run(["npm", "root", "--global"], capture_output=True, text=True, check=False)
        places.append(asked.stdout.strip())
    return os.environ | {"NODE_PATH": os.pathsep.join(filter(None, places))}


@cache
def _has_nodemailer() -> bool:
    if shutil.which("node") is None:
        return False
    found = subprocess.run(
        ["node", "-e", "require('nodemailer')"], capture_output=True, check=False, env=_with_modules()
    )
    return found.returncode == 0


def _has(tool: str) -> Callable[[], bool]:
    return lambda: shutil.which(tool) is not None


#: Each client, and whether it is there.
CLIENTS: dict[str, tuple[Client, Callable[[], bool]]] = {
    "smtplib": (with_smtplib, lambda: True),
    "aiosmtplib": (with_aiosmtplib, lambda: True),
    "swaks": (with_swaks, _has("swaks")),
    "msmtp": (with_msmtp, _has("msmtp")),
    "curl": (with_curl, _has("curl")),
    "nodemailer": (with_nodemailer, _has_nodemailer),
}
HOW_TO_GET = {
    "swaks": "apt-get install swaks",
    "msmtp": "apt-get install msmtp",
    "curl": "apt-get install curl",
    "nodemailer": "npm install --global nodemailer (or elsewhere, and name its node_modules in NODE_PATH)",
}
