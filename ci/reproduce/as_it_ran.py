"""What a test that is brought back runs in: as it ran then, as far as that can be had here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ci.config.run_model import Run
from ci.core.errors import BadFileError
from ci.reproduce.evidence import Evidence
from ci.runner.back_end import back_end_of
from ci.runner.cards import EMULATED_DEVICE
from ci.runner.installed import installed_torch
from ci.runner.inventory import is_real
from ci.runner.source import Source
from ci.steps.context import Context
from ci.steps.running import cards_of

# What of a run's environment is taken over: no path, no address, nothing that names code.
_TAKEN = re.compile(
    r"PYTORCH_TEST_WITH_[A-Z_]+|OMP_NUM_THREADS|MKL_NUM_THREADS|ATEN_CPU_CAPABILITY|THP_MEM_ALLOC_ENABLE|TZ"
    r"|LANG|LC_[A-Z]+"
)
_HARMLESS = re.compile(r"[A-Za-z0-9_.,:+-]{0,60}")


def as_it_ran(context: Context, found: Evidence) -> Context:
    """The device and the runner's times of that run; one card, no second try, nobody to share with.

    Raises:
        BadFileError: its settings are none.
    """
    if found.device and context.settings.model.device.name != found.device:
        context = context.on_device(found.device)
    settings = context.settings
    fixed = {"cards": 1, "static": True, "retries": 0, "control": "none", "share": None}
    try:
        run = Run.model_validate({**settings.model.run.model_dump(), **found.settings, **fixed})
    except ValueError as error:
        raise BadFileError(
            f"the run's settings cannot be taken: {' '.join(str(error).split())[:300]}",
            where=found.at,
            remedy="the file was changed by hand; bring the test back with its seed instead",
        ) from error
    model = settings.model.model_copy(update={"run": run})
    context = replace(context, settings=replace(settings, model=model))
    threads = found.tried.place.threads if found.tried is not None else 0
    # The worker of one card has all cores; the run's had its share of them.
    return replace(context, cores=min(threads, context.cores)) if threads else context


def differences(context: Context, found: Evidence, source: Source) -> list[str]:
    """What is not as it was in the run, and may be why it does not fail here."""
    said = []
    if found.sha and source.sha != found.sha:
        said.append(f"THE TESTS ARE {source.sha}, and the run's were {found.sha}")
    here = installed_torch().version
    if found.pytorch_version and found.pytorch_version != here:
        said.append(f"torch is {here}, and the run had {found.pytorch_version}")
    device = context.settings.model.device.name
    made = back_end_of(device, context.environ)
    if found.back_end and made != found.back_end:
        said.append(f"the device is that of {made}, and the run's was of {found.back_end}")
    card = found.tried.place.card if found.tried is not None else ""
    if (
        device == EMULATED_DEVICE
        and card
        and not card.startswith("emulated:")
        and not is_real(cards_of(context))
    ):
        said.append(f"the run had the card {card}, and here is none: the emulated device is used")
    if found.image and found.image != context.provider.image:
        said.append(f"the run was in the image {found.image}; --shell opens it")
    return said


def with_environment(context: Context, found: Evidence) -> tuple[Context, str]:
    """The run's variables that choose how tests behave, where harmless; and those that are not so here."""
    environ = found.tried.place.environ if found.tried is not None else {}
    wanted: Mapping[str, str] = {
        name: value
        for name, value in environ.items()
        if _TAKEN.fullmatch(name) and _HARMLESS.fullmatch(value) and context.environ.get(name) != value
    }
    said = " ".join(f"{name}={value}" for name, value in wanted.items())
    return replace(context, environ={**context.environ, **wanted}), said
