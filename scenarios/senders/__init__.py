"""Senders to judge: the reference, a tiny one in the standard library only, and known-bad ones with one sin each."""

from __future__ import annotations
