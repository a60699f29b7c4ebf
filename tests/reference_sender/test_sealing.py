"""Sealing: what one key sealed, that key opens; everything else is one sentence, and no key is ever told."""

from __future__ import annotations

import base64

import pytest

from reference_sender.policy.settings import InvalidSettings
from reference_sender.sealing import MAGIC, Sealed, Vault, is_sealed, key_of, vault_of

OLD = base64.b64encode(b"o" * 32).decode()
NEW = base64.b64encode(b"n" * 32).decode()
WORDS = b"Subject: hello\r\n\r\nDear Ann\r\n"


def test_what_is_sealed_is_opened_by_its_key_and_says_nothing() -> None:
    vault = Vault.parse(f"new:{NEW}")
    sealed = vault.seal(WORDS)
    assert is_sealed(sealed)
    assert (key_of(sealed), vault.open(sealed)) == ("new", WORDS)
    assert b"Ann" not in sealed
    assert vault.seal(WORDS) != sealed, "the same words never look the same"


def test_keys_are_rotated_the_first_seals_and_all_open() -> None:
    before = Vault.parse(f"old:{OLD}").seal(WORDS)
    vault = Vault.parse(f"new:{NEW}, old:{OLD}")
    assert vault.open(before) == WORDS
    assert key_of(vault.seal(WORDS)) == "new"


def test_a_key_that_is_not_here_or_is_another_one_is_one_sentence() -> None:
    sealed = Vault.parse(f"old:{OLD}").seal(WORDS)
    with pytest.raises(Sealed, match=r"sealed with the key 'old', which OUTBOX_BODY_KEYS does not name"):
        Vault.parse(f"new:{NEW}").open(sealed)
    with pytest.raises(Sealed, match=r"the key 'old' of OUTBOX_BODY_KEYS does not open the words"):
        Vault.parse(f"old:{NEW}").open(sealed)


@pytest.mark.parametrize("change", [len(MAGIC) + 5, -1, len(MAGIC) + 20])
def test_words_that_were_changed_do_not_open(change: int) -> None:
    vault = Vault.parse(f"old:{OLD}")
    sealed = bytearray(vault.seal(WORDS))
    sealed[change] ^= 1
    with pytest.raises(Sealed):
        vault.open(bytes(sealed))


@pytest.mark.parametrize(
    "cut", [len(MAGIC), len(MAGIC) + 3, len(MAGIC) + 4, len(MAGIC) + 10, len(MAGIC) + 16]
)
def test_words_that_were_cut_off_do_not_open(cut: int) -> None:
    vault = Vault.parse(f"old:{OLD}")
    with pytest.raises(Sealed):
        vault.open(vault.seal(WORDS)[:cut])


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (NEW, "key 1 of OUTBOX_BODY_KEYS has no name"),
        (f"new:{NEW},:{OLD}", "key 2 of OUTBOX_BODY_KEYS has no name"),
        (f"n w:{NEW}", "key 1 of OUTBOX_BODY_KEYS has no name"),
        ("new:c2VjcmV0", "the key 'new' of OUTBOX_BODY_KEYS is not base64 of 32 octets; make one with"),
        ("new:%%%", "the key 'new' of OUTBOX_BODY_KEYS is not base64"),
        (f"new:{NEW},new:{OLD}", "names the key 'new' twice"),
    ],
)
def test_keys_that_are_none_are_one_sentence_without_the_key(text: str, word: str) -> None:
    with pytest.raises(InvalidSettings, match=word) as caught:
        vault_of(text)
    for secret in (NEW, OLD, "c2VjcmV0", "%%%"):
        assert secret not in str(caught.value)


def test_without_keys_nothing_is_sealed_and_a_vault_does_not_show_its_keys() -> None:
    assert vault_of(None) is vault_of("") is None
    assert "nnnn" not in repr(vault_of(f"new:{NEW}"))
