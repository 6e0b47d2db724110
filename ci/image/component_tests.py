"""The tests of a stack's components: which there are, where each runs, and what it is given; pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ci.config.run_model import Device
from ci.core.errors import UsageError
from ci.image.containerfile import SHELL
from ci.image.model import Stack

Kind = Literal["build", "runtime", "device"]
KINDS: tuple[Kind, ...] = ("build", "runtime", "device")
# Where results go in the container; /tmp can be written by whoever runs there.
JUNIT_DIR = "/tmp/spyre-ci-junit"  # noqa: S108  # of a container that is made for these tests alone
# Of the test lines: the emulated device was wanted and is not in the image.
NO_DEVICE = 78
EMULATED, CARDS = "emulated", "cards"
# Tells ci.device that the emulated device is wanted although torch_spyre is there; see its environment.py.
EMULATE = "SPYRE_CI_EMULATE"
# The spyre-ci of the image says itself what its device wants; -P: a folder `ci` of the sources is another.
_VARIABLES = (
    "import json, shlex, sys; from ci.device.environment import device_environment as d; "
    'print("; ".join("export " + k + "=" + shlex.quote(v) '
    'for k, v in d("spyre", *json.loads(sys.argv[1])).items()))'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentTests:
    """The tests of one component of one kind.

    Attributes:
        component: its name.
        kind: where they run: where it was built, on the runtime image, or there with a device.
        lines: shell lines, each for a shell of its own; all run, also after one failed.
        timeout_s: seconds all of them may take.
        memory_bytes: they may take; None: any.
        environment: besides the image's.
        before: a shell line that makes more of the environment.
        devices: of the host, handed to the container.
    """

    component: str
    kind: Kind
    lines: tuple[str, ...]
    timeout_s: float
    memory_bytes: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    before: str = ":"
    devices: tuple[str, ...] = ()

    @property
    def stage(self) -> str:
        """The stage of the Containerfile that they run in."""
        return f"{'build' if self.kind == 'build' else 'test'}-{self.component}"

    @property
    def title(self) -> str:
        """As people call them."""
        return f"{self.component} ({self.kind})"

    @property
    def promises_junit(self) -> bool:
        """Whether the lines name the folder for results, so that none there means that they were lost."""
        return any("JUNIT_DIR" in line for line in self.lines)

    @property
    def script(self) -> str:
        """All lines as one script, which ends with the code of the first that failed."""
        parts = ['mkdir -p "$JUNIT_DIR"', self.before, "code=0"]
        for line in self.lines:
            told = f"printf 'exit code %s of: %s\\n' \"$last\" {shlex.quote(line)}"
            kept = '[ "$code" -ne 0 ] || code=$last'
            parts.append(f"{shlex.join([*SHELL, line])} || {{ last=$?; {told}; {kept}; }}")
        return "\n".join([*parts, 'exit "$code"'])


def planned_tests(stack: Stack, *, cards: Sequence[str], device: Device) -> list[ComponentTests]:
    """All tests of a stack: where components were built, then on the runtime image, then with a device.

    Args:
        stack: its components in the order they are built.
        cards: absolute paths of the host's devices; none: the emulated device.
        device: what the emulated device refuses.
    """
    # torch loads torch_spyre by itself, which takes PrivateUse1 for a card that is not found.
    emulate = {"SPYRE_CI_TEST_DEVICE": EMULATED, EMULATE: "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    for_device = {"SPYRE_CI_TEST_DEVICE": CARDS} if cards else emulate
    for_device = {**for_device, "PYTORCH_TESTING_DEVICE_ONLY_FOR": "privateuse1"}
    ask = ["python", "-P", "-c", _VARIABLES, json.dumps([device.refuse_ops, device.refuse_dtypes])]
    before = f'variables=$({shlex.join(ask)}) || exit {NO_DEVICE}; eval "$variables"'
    found = []
    for kind in KINDS:
        on_device = kind == "device"
        for one in stack.components:
            lines = one.device_test if on_device else one.test if kind == one.test_on else ()
            if not lines:
                continue
            given = {**stack.params_of(one), "JUNIT_DIR": JUNIT_DIR, "PYTHONUNBUFFERED": "1"}
            tests = ComponentTests(
                component=one.name,
                kind=kind,
                lines=lines,
                timeout_s=one.test_minutes * 60,
                memory_bytes=None if one.test_memory_gib is None else int(one.test_memory_gib * 2**30),
                environment={**given, **for_device} if on_device else given,
                before=before if on_device and not cards else ":",
                devices=tuple(cards) if on_device else (),
            )
            found.append(tests)
    return found


def chosen_tests(
    planned: Sequence[ComponentTests], *, components: Sequence[str] = (), with_device: bool = False
) -> list[ComponentTests]:
    """Those that somebody asks for.

    Args:
        planned: all of the stack.
        components: by name; none: all.
        with_device: those with a device alone; else all.

    Raises:
        UsageError: there are none.
    """
    kept = [one for one in planned if one.kind == "device" or not with_device]
    known = list(dict.fromkeys(one.component for one in kept))
    what = "tests with a device" if with_device else "tests"
    unknown = [f"component {name!r}" for name in components if name not in known]
    if unknown or not kept:
        raise UsageError(
            f"no {(unknown or ['component of the stack'])[0]} has {what}",
            where="--component" if unknown else "components",
            remedy=f"components with {what}: {', '.join(known) or 'none; give one `test` or `device_test`'}",
        )
    return [one for one in kept if not components or one.component in components]
