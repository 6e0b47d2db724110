"""The tests of a stack's components: which there are, where each runs, and what it is given; pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ci.core.errors import UsageError
from ci.image.containerfile import SHELL
from ci.image.resolved import ResolvedStack
from ci.image.stack import params_of

Kind = Literal["build", "runtime", "device"]
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
class Device:
    """What tests with a device get.

    Attributes:
        cards: absolute paths of the host's devices; none: the emulated device.
        refuse_ops: aten operators the emulated device refuses.
        refuse_dtypes: dtypes it refuses, without `torch.`.
    """

    cards: Sequence[str] = ()
    refuse_ops: Sequence[str] = ()
    refuse_dtypes: Sequence[str] = ()


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


def planned_tests(resolved: ResolvedStack, device: Device) -> list[ComponentTests]:
    """All tests of a stack: where components were built, then on the runtime image, then with a device.

    Args:
        resolved: the stack, named exactly.
        device: what those with a device get.
    """
    found: list[ComponentTests] = []
    for component in resolved.stack.components:
        by_kind: dict[Kind, tuple[str, ...]] = {
            component.test_on: component.test,
            "device": component.device_test,
        }
        for kind, lines in by_kind.items():
            if not lines:
                continue
            given = {**params_of(resolved.stack, component), "JUNIT_DIR": JUNIT_DIR, "PYTHONUNBUFFERED": "1"}
            with_device = kind == "device"
            gib = component.test_memory_gib
            found.append(
                ComponentTests(
                    component=component.name,
                    kind=kind,
                    lines=lines,
                    timeout_s=component.test_minutes * 60,
                    memory_bytes=None if gib is None else int(gib * 2**30),
                    environment=given | (_device_variables(device) if with_device else {}),
                    before=_emulated(device) if with_device and not device.cards else ":",
                    devices=tuple(device.cards) if with_device else (),
                )
            )
    order: list[Kind] = ["build", "runtime", "device"]
    return sorted(found, key=lambda one: order.index(one.kind))


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
    for name in components:
        if name not in known:
            raise UsageError(
                f"no component {name!r} has {what}",
                where="--component",
                remedy=f"components with {what}: {', '.join(known) or 'none'}",
            )
    if not kept:
        raise UsageError(
            f"no component of the stack has {what}",
            where="components",
            remedy=f"give one `{'device_test' if with_device else 'test'}`",
        )
    return [one for one in kept if not components or one.component in components]


def _device_variables(device: Device) -> dict[str, str]:
    """What tells test lines, and torch, which device there is."""
    common = {"PYTORCH_TESTING_DEVICE_ONLY_FOR": "privateuse1"}
    if device.cards:
        return common | {"SPYRE_CI_TEST_DEVICE": CARDS}
    # torch loads torch_spyre by itself, which takes PrivateUse1 for a card that is not there.
    return common | {"SPYRE_CI_TEST_DEVICE": EMULATED, EMULATE: "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}


def _emulated(device: Device) -> str:
    refused = json.dumps([list(device.refuse_ops), list(device.refuse_dtypes)])
    ask = shlex.join(["python", "-P", "-c", _VARIABLES, refused])
    return f'variables=$({ask}) || exit {NO_DEVICE}; eval "$variables"'
