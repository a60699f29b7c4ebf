"""Columns whose content is sealed at rest, where the engine has a vault: nobody above notices.

What cannot be opened comes back as it is stored, still sealed: one mail whose key is missing must not keep the others
from being read. Who sends looks (`sealing.is_sealed`, `Bar.SEALED`).
Must not hold: keys, ciphers.
"""

from __future__ import annotations

import base64
from weakref import WeakKeyDictionary

from sqlalchemy import Dialect, Engine, LargeBinary, Text
from sqlalchemy.types import TypeDecorator

from reference_sender.sealing import Sealed, Vault, is_sealed

#: What a sealed text begins with; the rest is base64.
TEXT_MARK = "\x01sealed:"

# By dialect, because that is what a type is given, and every engine has its own.
_vaults: WeakKeyDictionary[Dialect, Vault] = WeakKeyDictionary()


def seal_with(engine: Engine, vault: Vault | None) -> Engine:
    """From here on this engine writes sealed words, and reads them. It can be the engine of a business, too."""
    if vault is None:
        _vaults.pop(engine.dialect, None)
    else:
        _vaults[engine.dialect] = vault
    return engine


def vault_behind(engine: Engine) -> Vault | None:
    """The vault of an engine."""
    return _vaults.get(engine.dialect)


class SealedBytes(TypeDecorator[bytes]):
    """Octets that nobody reads in the database."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> bytes | None:
        vault = _vaults.get(dialect)
        # Words that are gone need no seal.
        return vault.seal(bytes(value)) if vault is not None and value else value

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> bytes | None:
        if value is None or not value or value[0]:
            return value  # mostly: a mail does not begin with NUL
        return _opened(bytes(value), dialect)


class SealedText(TypeDecorator[str]):
    """A text that nobody reads in the database."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        vault = _vaults.get(dialect)
        if vault is None or not value:
            return value
        return TEXT_MARK + base64.b64encode(vault.seal(value.encode())).decode("ascii")

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None or not value.startswith(TEXT_MARK):
            return value
        words = _opened(base64.b64decode(value[len(TEXT_MARK) :]), dialect)
        return value if is_sealed(words) else words.decode()


def _opened(words: bytes, dialect: Dialect) -> bytes:
    vault = _vaults.get(dialect)
    if vault is None or not is_sealed(words):
        return words
    try:
        return vault.open(words)
    except Sealed:
        return words
