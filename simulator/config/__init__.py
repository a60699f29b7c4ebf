"""The language people write fault plans in: TOML or JSON becomes a `Setup`, mistakes become one sentence.

What a fault or a rule *does* lives in `simulator.provider`; here are only keys, forms, and which conditions can be
known at which stage. Keys of faults come from the faults' own fields.
"""

from __future__ import annotations

from simulator.config.accounts import Configuration, read_configuration, read_configuration_file
from simulator.config.conditions import KNOWN_AT, STAGES, WHEN_KEYS, WHO_KEYS, WIRES
from simulator.config.doubts import warnings
from simulator.config.forms import PARAMETERS
from simulator.config.place import PlanError
from simulator.config.plan import PLAN_KEYS, read_plan, read_plan_file
from simulator.config.rules import RULE_KEYS, read_rules
from simulator.config.sentences import explain
from simulator.config.settings import explain_settings
from simulator.config.shipped import shipped_plans
from simulator.config.written import plan_as_json, recording_as_json, rule_as_json

__all__ = [
    "KNOWN_AT",
    "PARAMETERS",
    "PLAN_KEYS",
    "RULE_KEYS",
    "STAGES",
    "WHEN_KEYS",
    "WHO_KEYS",
    "WIRES",
    "Configuration",
    "PlanError",
    "explain",
    "explain_settings",
    "plan_as_json",
    "read_configuration",
    "read_configuration_file",
    "read_plan",
    "read_plan_file",
    "read_rules",
    "recording_as_json",
    "rule_as_json",
    "shipped_plans",
    "warnings",
]
