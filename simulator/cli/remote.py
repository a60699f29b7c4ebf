"""What commands share: exit codes, trouble in one sentence, and speaking to a running simulator."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from simulator.client import ControlClient
    from simulator.config import Configuration
    from simulator.provider.account import Setup

OK, FAILED, SETUP = 0, 1, 2
DEFAULT_URL = "http://127.0.0.1:8025"

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Trouble(click.ClickException):
    """Something is wrong with what was asked for; one sentence, exit code 2."""

    exit_code = SETUP

    def show(self, file: Any = None) -> None:
        click.echo(f"simulator: {self.format_message()}", err=True, file=file)


def remote(command: _Command) -> _Command:
    """Give a command the options that say which simulator and which account is meant."""
    for option in (
        click.option("--token", metavar="T", help="The admin token, if the simulator wants one."),
        click.option("--account", default="default", show_default=True, help="The account that is meant."),
        click.option("--url", default=DEFAULT_URL, show_default=True, help="Where the simulator's HTTP is."),
    ):
        command = option(command)
    return command


def ask(url: str, account: str, token: str | None, question: Callable[[ControlClient], Any]) -> Any:
    """Ask a running simulator."""
    from simulator.client import ControlClient, ControlError

    try:
        with ControlClient(url, account, token) as client:
            return question(client)
    except ControlError as problem:
        raise Trouble(str(problem)) from problem


def read_configuration(plan: str) -> Configuration:
    """Read the plan of a whole provider, by path or name."""
    from simulator.config import PlanError, read_configuration_file

    try:
        return read_configuration_file(plan)
    except PlanError as problem:
        raise Trouble(str(problem)) from problem


def read_recording(file: str) -> Configuration:
    """Read what struck in a former run."""
    configuration = read_configuration(file)
    setups = (configuration.setup, *(tenant.setup for _, tenant in configuration.tenancy.tenants))
    if all(setup.plan.recorded is None for setup in setups):
        raise Trouble(f'{file}: it has no "replay"; give what simulator decisions --save has written')
    return configuration


def read_plan(plan: str) -> Setup:
    """Read the plan of one account, by path or name."""
    from simulator.config import PlanError, read_plan_file

    try:
        return read_plan_file(plan)
    except PlanError as problem:
        raise Trouble(str(problem)) from problem


def print_json(data: object) -> None:
    """Print JSON for scripts."""
    click.echo(json.dumps(data, indent=2, ensure_ascii=False))
