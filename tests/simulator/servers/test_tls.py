"""Certificates: a CA that stays, server certificates that fit, and bad ones that are bad in exactly one way."""

from __future__ import annotations

import ssl
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme

from simulator.provider.answer import CertificateFlaw
from simulator.servers.tls import Tls, TlsError, TlsOptions

NOW = datetime.now(UTC)


def tls(folder: Path, **options: object) -> Tls:
    return Tls(TlsOptions(folder=folder, **options), names=("mail.simulator.test",), now=NOW)  # type: ignore[arg-type]


def verdict(server: ssl.SSLContext, ca_file: Path | None, name: str) -> str:
    """Shake hands in memory; return what the client says of the certificate, or `ok`."""
    client = ssl.create_default_context(cafile=ca_file)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=name)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLCertVerificationError as problem:
                return problem.verify_message
    return "ok" if ours.version() else "nothing"


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1", "mail.simulator.test", "mx.shop.example"])
def test_a_sender_that_trusts_the_ca_is_content(tmp_path: Path, name: str) -> None:
    made = tls(tmp_path, names=("mx.shop.example",))

    assert verdict(made.context(), made.ca_file, name) == "ok"


def test_the_ca_stays_from_start_to_start_and_its_key_is_a_secret(tmp_path: Path) -> None:
    first = tls(tmp_path / "new" / "folder")
    again = tls(tmp_path / "new" / "folder")

    assert first.ca_file is not None
    assert verdict(again.context(), first.ca_file, "localhost") == "ok"
    key = tmp_path / "new" / "folder" / "ca-key.pem"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert sorted(each.name for each in key.parent.iterdir()) == ["ca-key.pem", "ca.pem"]


@pytest.mark.parametrize(
    ("flaw", "says"),
    [
        (CertificateFlaw.EXPIRED, "certificate has expired"),
        (CertificateFlaw.NOT_YET_VALID, "certificate is not yet valid"),
        (CertificateFlaw.WRONG_HOST, "Hostname mismatch, certificate is not valid for 'localhost'."),
        (CertificateFlaw.UNTRUSTED, "unable to get local issuer certificate"),
    ],
)
def test_a_bad_certificate_is_bad_in_one_way(tmp_path: Path, flaw: CertificateFlaw, says: str) -> None:
    made = tls(tmp_path)

    assert verdict(made.context(flaw), made.ca_file, "localhost") == says
    assert made.context(flaw) is made.context(flaw)


def test_somebodys_own_certificate_is_used_as_it_is(tmp_path: Path) -> None:
    ca = trustme.CA()
    leaf = ca.issue_cert("own.example")
    certificate, key, trust = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "trust.pem"
    certificate.write_bytes(b"".join(each.bytes() for each in leaf.cert_chain_pems))
    key.write_bytes(leaf.private_key_pem.bytes())
    trust.write_bytes(ca.cert_pem.bytes())
    made = tls(tmp_path / "never made", certificate=certificate, key=key)

    assert verdict(made.context(), trust, "own.example") == "ok"
    assert made.ca_file is None
    assert verdict(made.context(CertificateFlaw.EXPIRED), trust, "own.example") != "ok"
    assert not (tmp_path / "never made").exists()


@pytest.mark.parametrize(
    ("spoil", "options", "says"),
    [
        (lambda folder: None, {"certificate": Path("c.pem")}, "--tls-cert is given without --tls-key"),
        (lambda folder: None, {"key": Path("k.pem")}, "--tls-key is given without --tls-cert"),
        (
            lambda folder: None,
            {"certificate": Path("no.pem"), "key": Path("no.pem")},
            "--tls-cert no.pem and --tls-key no.pem cannot be used: No such file",
        ),
        (lambda folder: (folder / "ca.pem").write_text("x"), {}, "is there without ca-key.pem; put it back"),
        (lambda folder: (folder / "ca-key.pem").write_text("x"), {}, "is there without ca.pem; put it back"),
        (
            lambda folder: [(folder / name).write_text("x") for name in ("ca.pem", "ca-key.pem")],
            {},
            "is damaged: ",
        ),
        (lambda folder: (folder.rmdir(), folder.write_text("")), {}, "cannot be read or kept: "),
    ],
)
def test_every_mistake_is_one_sentence(
    tmp_path: Path, spoil: Callable[[Path], object], options: dict[str, Path], says: str
) -> None:
    folder = tmp_path / "tls"
    folder.mkdir()
    spoil(folder)

    with pytest.raises(TlsError) as caught:
        tls(folder, **options)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["mx shop.example", "", "x" * 64 + ".example", "*"])
def test_a_name_that_no_certificate_can_have_is_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(TlsError) as caught:
        tls(tmp_path, names=(name,))
    assert "--tls-name" in str(caught.value)
    assert "\n" not in str(caught.value)
