"""Results become a certificate, a page for people, and JUnit XML. Pure: values in, texts out.

A certificate says what was promised, what was found, with which seed, and how to run it again; its digest
covers everything else in it, so that a changed certificate can be told.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

from jinja2 import Environment, StrictUndefined

from scenarios.promises import NOT_CLAIMABLE, PROMISES, Level, Promise
from simulator import __version__

SCHEMA = "mailproof/1"
STATUSES = ("pass", "fail", "skip", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one promise on one wire."""

    promise: Promise
    profile: str
    status: str
    """pass, fail, skip (the ability is not declared) or error (the scenario says nothing)."""
    reason: str = ""
    duration_s: float = 0.0
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.promise.id_on(self.profile)


#: What a scenario has for a database where none is named.
EMBEDDED = "SQLite, a file for each scenario"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Who is certified."""

    name: str
    version: str | None
    adapter: str
    abilities: tuple[str, ...]
    policy: str
    profiles: tuple[str, ...]
    hints: tuple[str, ...] = ()
    """What would make its certification say more or take less time."""
    database: str = ""
    """What its scenarios were given as a database: `EMBEDDED`, or name and version of a server."""


def certificate(
    *,
    sender: Subject,
    results: Sequence[Result],
    seed: int,
    began_at: str,
    ended_at: str,
    complete: bool,
    replay: str,
    replay_one: str,
) -> dict[str, Any]:
    """Return the certificate as JSON values.

    `complete`: nothing was deselected. `replay` is the command that runs the same again, `replay_one` the
    one to which the id of a single promise can be added.
    """
    order = {promise.name: number for number, promise in enumerate(PROMISES)}
    ordered = sorted(
        results, key=lambda each: (sender.profiles.index(each.profile), order[each.promise.name])
    )
    missing = [
        promise.id_on(profile)
        for profile in sender.profiles
        for promise in PROMISES
        if profile in promise.profiles and promise.id_on(profile) not in {result.id for result in results}
    ]
    body: dict[str, Any] = {
        "schema": SCHEMA,
        "result": verdict(results, complete=complete and not missing),
        "sender": {
            "name": sender.name,
            "version": sender.version,
            "adapter": sender.adapter,
            "abilities": list(sender.abilities),
            "policy": sender.policy,
            "database": sender.database,
            "profiles": {profile: guarantee(sender, profile) for profile in sender.profiles},
            "hints": list(sender.hints),
        },
        "simulator": {"version": __version__},
        "seed": seed,
        "started": began_at,
        "ended": ended_at,
        "promises": [_entry(result, replay_one) for result in ordered],
        "not_run": missing,
        "not_claimable": [
            {"claim": claim, "why": why}
            for claim, why in NOT_CLAIMABLE.items()
            if ("SMTP" in claim and "smtp" in sender.profiles)
            or ("HTTP" in claim and "http" in sender.profiles and "http-idempotency" not in sender.abilities)
        ],
        "totals": totals(results),
        "coverage": {"scenarios": coverage(ordered), "matrix": matrix(ordered)},
        "replay": replay,
    }
    return body | {"digest": digest(body)}


def guarantee(sender: Subject, profile: str) -> str:
    """Return the policy by which copies are counted on this wire."""
    if profile == "http" and "http-idempotency" in sender.abilities:
        return "exactly-once (idempotency keys)"
    return sender.policy


def verdict(results: Sequence[Result], *, complete: bool) -> str:
    """Return `certified`, `not certified` or `incomplete`, from the MUST promises alone."""
    binding = [result for result in results if result.promise.level is Level.MUST]
    if any(result.status == "fail" for result in binding):
        return "not certified"
    if not complete or not binding or any(result.status == "error" for result in binding):
        return "incomplete"
    return "certified" if any(result.status == "pass" for result in binding) else "incomplete"


def totals(results: Sequence[Result]) -> dict[str, int]:
    """Count results by status."""
    counts = Counter(result.status for result in results)
    return {status: counts[status] for status in STATUSES}


def coverage(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return the matrix of faults and crashes, as a list of cells that were really run."""
    cells: dict[tuple[str, str], Counter[str]] = {}
    for result in results:
        cell = cells.setdefault((result.promise.fault, result.promise.crash), Counter())
        cell[result.status] += 1
    return [{"fault": fault, "crash": crash} | dict(counts) for (fault, crash), counts in cells.items()]


def matrix(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return what was played in the simulated world, one entry for each of its profiles."""
    return [dict(result.evidence["matrix"]) for result in results if result.evidence.get("matrix")]


def _entry(result: Result, replay_one: str) -> dict[str, Any]:
    promise = result.promise
    # The matrix has a place of its own in the certificate.
    evidence = {name: value for name, value in result.evidence.items() if name != "matrix"}
    return {
        "id": result.id,
        "level": promise.level.value,
        "family": promise.family,
        "profile": result.profile,
        "status": result.status,
        "requirement": promise.requirement,
        "source": promise.source,
        "expected": _expected(result),
        "actual": _actual(result),
        "reason": result.reason,
        "duration_s": result.duration_s,
        "replay": f"{replay_one} --select {result.id}",
        "evidence": evidence,
    }


def _expected(result: Result) -> str:
    mails = result.evidence.get("mails", [])
    if played := result.evidence.get("matrix"):
        return f"no finding in {played['total']:,} cells, and every hard path walked"
    owed = sum(int(mail["owed"]) for mail in mails)
    beside = " (one of them the bystander, which no fault is meant for)"
    who = beside if any(mail.get("bystander") for mail in mails) else ""
    return (
        f"{owed} promised{who}, each {_kept(result)}" if mails else "nothing reaches the provider unpromised"
    )


def _kept(result: Result) -> str:
    return "accepted as often as promised, or refused or parked and reported so"


def _actual(result: Result) -> str:
    findings = result.evidence.get("findings", [])
    if findings:
        return "; ".join(f"{each['kind']}: {each['recipient']}: {each['sentence']}" for each in findings)
    if result.status in ("skip", "error"):
        return result.reason
    if played := result.evidence.get("matrix"):
        return (
            f"{played['cells']:,} of {played['total']:,} cells covered by {played['played']:,} worlds, "
            f"{played['skipped']:,} skipped, "
            f"{played['failed']:,} failed"
        )
    mails = result.evidence.get("mails", [])
    copies = sum(int(mail["copies"]) for mail in mails)
    attempts = sum(int(mail["attempts"]) for mail in mails)
    parts = [f"{copies} accepted in {attempts} attempts"]
    if parked := result.evidence.get("parked"):
        parts.append(f"parked for a person: {', '.join(parked)}")
    if dropped := result.evidence.get("dropped"):
        parts.append(f"accepted but dropped by the provider: {', '.join(dropped)}")
    if not_judged := result.evidence.get("not_judged"):
        parts.append(not_judged)
    return "; ".join(parts)


# --- texts ------------------------------------------------------------------------------------------


def canonical(value: Any, *, indent: int | None = None) -> str:
    """Return the one JSON text of a value: keys sorted, nothing but ASCII left to interpretation."""
    separators = (",", ":") if indent is None else (",", ": ")
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=separators, indent=indent)


def digest(body: Mapping[str, Any]) -> str:
    """Return the SHA-256 over the canonical JSON of everything but the digest itself."""
    content = {key: value for key, value in body.items() if key != "digest"}
    return "sha256:" + hashlib.sha256(canonical(content).encode("utf-8")).hexdigest()


def is_untouched(certificate: Mapping[str, Any]) -> bool:
    """Tell whether a certificate is as it was issued."""
    return certificate.get("digest") == digest(certificate)


def junit(certificate: Mapping[str, Any]) -> str:
    """Return JUnit XML: a suite per wire and family, a case per promise, the timeline as failure text."""
    root = ElementTree.Element("testsuites", name="mailproof")
    suites: dict[str, list[Mapping[str, Any]]] = {}
    for entry in certificate["promises"]:
        suites.setdefault(f"{entry['profile']}: {entry['family']}", []).append(entry)
    for name, entries in suites.items():
        counts = Counter(entry["status"] for entry in entries)
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=name,
            tests=str(len(entries)),
            failures=str(counts["fail"]),
            errors=str(counts["error"]),
            skipped=str(counts["skip"]),
            time=f"{sum(entry['duration_s'] for entry in entries):.3f}",
        )
        properties = ElementTree.SubElement(suite, "properties")
        ElementTree.SubElement(properties, "property", name="seed", value=str(certificate["seed"]))
        for entry in entries:
            case = ElementTree.SubElement(
                suite,
                "testcase",
                classname=f"mailproof.{entry['profile']}",
                name=entry["id"],
                time=f"{entry['duration_s']:.3f}",
            )
            if entry["status"] == "skip":
                ElementTree.SubElement(case, "skipped", message=_xml(entry["reason"]))
            elif entry["status"] in ("fail", "error"):
                tag = "failure" if entry["status"] == "fail" else "error"
                trouble = ElementTree.SubElement(case, tag, message=_xml(entry["actual"]))
                trouble.text = _xml("\n".join((entry["requirement"], "", *timeline_lines(entry))))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _xml(text: str) -> str:
    """Leave out what XML 1.0 cannot carry at all."""
    return "".join(char for char in text if char in "\t\n\r" or (char >= " " and char not in "\ufffe\uffff"))


def timeline_lines(entry: Mapping[str, Any]) -> list[str]:
    """Return the timeline of an entry as lines of text."""
    return [
        f"{moment['t_s']:8.3f} s  {moment['actor']:<8}  {moment['text']}"
        for moment in entry.get("evidence", {}).get("timeline", [])
    ]


# --- the page ---------------------------------------------------------------------------------------

LANES = ("app", "sender", "harness", "provider", "ledger")
_WIDTH, _LEFT, _LANE_HEIGHT = 900.0, 90.0, 34.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One moment in the picture of a timeline."""

    x: float
    y: float
    actor: str
    text: str
    t_s: float


def picture(moments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return where to draw a timeline: one lane per actor, time from left to right."""
    longest = max((float(moment["t_s"]) for moment in moments), default=0.0) or 1.0
    lanes = {lane: (number + 0.5) * _LANE_HEIGHT for number, lane in enumerate(LANES)}
    dots = [
        Dot(
            x=round(_LEFT + float(moment["t_s"]) / longest * (_WIDTH - _LEFT - 20), 1),
            y=lanes.get(str(moment["actor"]), lanes["harness"]),
            actor=str(moment["actor"]),
            text=str(moment["text"]),
            t_s=float(moment["t_s"]),
        )
        for moment in moments
    ]
    return {
        "width": _WIDTH,
        "left": _LEFT,
        "height": len(LANES) * _LANE_HEIGHT + 24,
        "floor": len(LANES) * _LANE_HEIGHT,
        "lanes": lanes,
        "dots": dots,
        "longest": longest,
    }


def scoreboard(certificate: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one row per family: for each wire the statuses of its promises, in the order of the table."""
    profiles = list(certificate["sender"]["profiles"])
    families = list(dict.fromkeys(promise.family for promise in PROMISES))
    rows = []
    for family in families:
        cells = {
            profile: [
                entry
                for entry in certificate["promises"]
                if entry["family"] == family and entry["profile"] == profile
            ]
            for profile in profiles
        }
        if any(cells.values()):
            rows.append({"family": family, "cells": cells})
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    """One square of the heat map: a behaviour of the provider against a kind of crash."""

    cells: int
    failed: int
    not_reached: int
    played: int
    warmth: int
    """0 (nothing was covered) to 5 (most cells of the map)."""


def heat_map(played: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns, rows and squares of what was played of one profile."""
    rows: Mapping[str, Mapping[str, Mapping[str, int]]] = played["rows"]
    names = sorted({crash for row in rows.values() for crash in row}, key=_column)
    most = max((counts["cells"] for row in rows.values() for counts in row.values()), default=1)
    squares = {
        behaviour: [
            Square(**counts, warmth=_warmth(counts["cells"], most)) if (counts := row.get(name)) else None
            for name in names
        ]
        for behaviour, row in rows.items()
    }
    sums = [sum(row[name]["cells"] for row in rows.values() if name in row) for name in names]
    return {"columns": names, "rows": squares, "sums": sums}


def _column(crash: str) -> tuple[int, str]:
    order = ("no crash", "worker", "application", "provider", "intake", "expander", "person", "sequence")
    return next((n for n, word in enumerate(order) if crash.startswith(word)), len(order)), crash


def _warmth(cells: int, most: int) -> int:
    # By size, not in proportion: one cell and a hundred must both be seen.
    return min(5, 1 + int(4 * math.log(max(cells, 1)) / math.log(max(most, 2))))


def page(certificate: Mapping[str, Any], template: str) -> str:
    """Return the report as one HTML page without any outside reference; everything in it is escaped."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    failed = [entry for entry in certificate["promises"] if entry["status"] in ("fail", "error")]
    return environment.from_string(template).render(
        certificate=certificate,
        scoreboard=scoreboard(certificate),
        failed=failed,
        skipped=[entry for entry in certificate["promises"] if entry["status"] == "skip"],
        picture=picture,
        heat_map=heat_map,
        signs={"pass": "✓", "fail": "✗", "skip": "–", "error": "!"},
    )
