"""Words at rest, sealed with keys that are not in the database: AES-256-GCM, several keys, so that they can be rotated.

The first key seals; every key that is named opens. What is sealed says which key it needs. Loaded only where
`OUTBOX_BODY_KEYS` is set.
Must not hold: databases, the environment.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from reference_sender.clock import unforeseeable
from reference_sender.policy.settings import InvalidSettings

#: What sealed words begin with. No mail does: NUL is no character of one (RFC 5322 section 2.2).
MAGIC = b"\x00sealed:1:"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,32}\Z")
_KEY_OCTETS = 32
_NONCE_OCTETS = 12  # NIST SP 800-38D section 8.2.1


class Sealed(Exception):
    """The words cannot be read; the text is one sentence without anything of them."""


def is_sealed(words: bytes) -> bool:
    """Whether these are sealed words."""
    return words.startswith(MAGIC)


def key_of(words: bytes) -> str:
    """The name of the key that sealed words need."""
    return words[len(MAGIC) :].partition(b"\x00")[0].decode("ascii", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vault:
    """Keys by name, and the one that seals."""

    current: str
    keys: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Vault:
        """Read `2026-11:BASE64,2026-05:BASE64`, newest first. Raises `InvalidSettings`, which never repeats a key."""
        keys: dict[str, bytes] = {}
        for number, part in enumerate((each.strip() for each in text.split(",")), start=1):
            name, colon, encoded = part.partition(":")
            if not colon or not _NAME.match(name):
                raise InvalidSettings(
                    f"key {number} of OUTBOX_BODY_KEYS has no name of letters, digits, dots and dashes before its colon; "
                    "write it like 2026-11:BASE64"
                )
            try:
                key = base64.b64decode(encoded, validate=True)
            except (binascii.Error, ValueError):
                key = b""
            if len(key) != _KEY_OCTETS:
                raise InvalidSettings(
                    f"the key {name!r} of OUTBOX_BODY_KEYS is not base64 of {_KEY_OCTETS} octets; "
                    "make one with: openssl rand -base64 32"
                )
            if name in keys:
                raise InvalidSettings(f"OUTBOX_BODY_KEYS names the key {name!r} twice; each has its own name")
            keys[name] = key
        return cls(current=next(iter(keys)), keys=keys)

    def seal(self, words: bytes) -> bytes:
        """Seal with the newest key."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        head = MAGIC + self.current.encode("ascii") + b"\x00"
        nonce = unforeseeable(_NONCE_OCTETS)
        return head + nonce + AESGCM(self.keys[self.current]).encrypt(nonce, words, head)

    def open(self, sealed: bytes) -> bytes:
        """Read sealed words. Raises `Sealed`."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        name = key_of(sealed)
        if name not in self.keys:
            raise Sealed(f"the words are sealed with the key {name!r}, which OUTBOX_BODY_KEYS does not name")
        head_end = len(MAGIC) + len(name) + 1
        nonce, rest = sealed[head_end : head_end + _NONCE_OCTETS], sealed[head_end + _NONCE_OCTETS :]
        try:
            return AESGCM(self.keys[name]).decrypt(nonce, rest, sealed[:head_end])
        except (InvalidTag, ValueError) as error:
            raise Sealed(
                f"the key {name!r} of OUTBOX_BODY_KEYS does not open the words: it is another key, or they were changed"
            ) from error


def vault_of(text: str | None) -> Vault | None:
    """The vault that these keys make; None: nothing is sealed. Raises `InvalidSettings`."""
    if not text:
        return None
    try:
        import cryptography  # noqa: F401 # only whether it is there; it is used above
    except ImportError as error:
        raise InvalidSettings(
            f"OUTBOX_BODY_KEYS is set and {error.name} is not installed; install mailproof[encryption]"
        ) from error
    return Vault.parse(text)
