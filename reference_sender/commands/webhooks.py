"""`reference-sender webhooks`: takes in what the provider tells of mails afterwards, until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

import click

from reference_sender.commands.frame import SetUpError, sentences, with_options
from reference_sender.intake import Intake, IntakeParts, build_intake
from reference_sender.intake_options import INTAKE_OPTIONS, intake_options_from
from reference_sender.log import JsonLog
from reference_sender.wiring import Parts


@click.command()
@with_options(*INTAKE_OPTIONS)
@click.pass_obj
def webhooks(parts: Parts, /, **values: Any) -> None:
    """Take in what the provider tells of mails afterwards, until SIGTERM: webhooks, bounces, complaints."""
    with sentences():
        intake = build_intake(
            intake_options_from(values),
            IntakeParts(
                clock=parts.clock,
                log=JsonLog(sys.stderr, parts.clock),
                open_engine=parts.open_engine,
                open_store=parts.open_store,
            ),
        )
        intake.store.check()
        try:
            asyncio.run(_run(intake))
        except OSError as error:
            raise SetUpError(f"nobody can listen there: {error.strerror or error}") from error


async def _run(intake: Intake) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await intake.run(stop, ready=lambda where: click.echo(f"ready: {where}"))
