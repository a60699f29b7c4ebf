"""What a server learnt at a stage."""

from __future__ import annotations

from dataclasses import fields

from simulator.provider.detail import NOTHING_NEW


def test_nothing_new_is_empty_in_every_field() -> None:
    assert not any(getattr(NOTHING_NEW, field.name) for field in fields(NOTHING_NEW))
