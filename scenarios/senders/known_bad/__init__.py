"""Senders with one sin each: patches of the tiny one. The suite must catch each by exactly what it breaks."""

from __future__ import annotations
