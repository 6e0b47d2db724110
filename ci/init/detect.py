"""Which back end a checkout is of: what is known, what is assumed, and why; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ci.core.errors import UsageError
from ci.init.checkout import Sources
from ci.init.metadata import Metadata, read_metadata
from ci.init.renamed import NAME, names_in_cxx, names_in_python

# What the toolkit is made for, and what it emulates where there is no card.
SPYRE, SPYRE_PACKAGE = "spyre", "torch_spyre"
# Names by which many packages begin: what is behind them is the likeliest name of the device.
_PREFIXES = ("torch_", "pytorch_")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackEnd:
    """A back end.

    Attributes:
        device: the name PrivateUse1 gets, such as `spyre`.
        package: what is imported, such as `torch_spyre`.
        project: what it is installed by; empty where the checkout is no Python project.
        notes: what was found where, and what was assumed; a sentence each.
    """

    device: str
    package: str
    project: str
    notes: tuple[str, ...] = ()


def detect(sources: Sources, *, device: str | None = None, package: str | None = None) -> BackEnd:
    """Say which back end a checkout is of.

    Args:
        sources: of the checkout.
        device: the device's name, where somebody says it.
        package: the package's, likewise.

    Raises:
        UsageError: what was said is no such name.
    """
    metadata = read_metadata(sources.metadata)
    notes = [f"{name} cannot be read, so it says nothing" for name in metadata.unread]
    if sources.partly:
        notes.append("there are more files than were looked at; name --device if it is wrong")
    chosen, why = _package(metadata, sources, _checked(package, "--package", "a Python package"))
    notes += why
    named, why = _device(sources, chosen, _checked(device, "--device", "a device, such as spyre"))
    return BackEnd(device=named, package=chosen, project=metadata.project, notes=(*notes, *why))


def _checked(name: str | None, flag: str, what: str) -> str | None:
    if name is not None and not NAME.fullmatch(name.lower() if flag == "--package" else name):
        raise UsageError(f"{flag} is {name!r}, which is no name of {what}", remedy="of a-z, 0-9 and _")
    return name


def _package(metadata: Metadata, sources: Sources, asked: str | None) -> tuple[str, list[str]]:
    if asked is not None:
        return asked, []
    if len(metadata.packages) > 1:
        listed = ", ".join(metadata.packages)
        said = f"{metadata.source} registers several packages with torch ({listed}); --package names another"
        return metadata.packages[0], [said]
    if metadata.packages:
        said = f"package {metadata.packages[0]}: {metadata.source} registers it with torch (torch.backends)"
        return metadata.packages[0], [said]
    # A package that is named as the project is, is the project's.
    name = metadata.project.replace("-", "_").replace(".", "_")
    tops = {
        top
        for path in sources.python
        if path.endswith("/__init__.py")
        and (top := path.removeprefix("src/").split("/")[0]).isascii()
        and top.isidentifier()
    }
    known = name if name in tops else None
    if known is None and len(tops) == 1:
        known = next(iter(tops))
    if known is not None:
        return known, [
            f"package {known} is assumed: nothing of the project registers with torch (torch.backends)"
        ]
    return SPYRE_PACKAGE, [
        f"package {SPYRE_PACKAGE} is assumed: no package was found; --package names another"
    ]


def _device(sources: Sources, package: str, asked: str | None) -> tuple[str, list[str]]:
    if asked is not None:
        return asked, []
    found = _by_file(sources)
    # What a package itself names goes before what a tool or an example beside it does.
    own = {path: names for path, names in found.items() if f"/{package}/" in f"/{path}"}
    names = sorted(set().union(*(own or found).values()))
    if len(names) == 1:
        where = min(own or found)
        return names[0], [f"device {names[0]}: {where} gives PrivateUse1 that name"]
    guess = next((package.removeprefix(one) for one in _PREFIXES if package.startswith(one)), package).lower()
    if names:
        chosen = guess if guess in names else names[0]
        listed = ", ".join(names)
        return chosen, [
            f"device {chosen} is assumed: PrivateUse1 gets several names ({listed}); --device says which"
        ]
    guess = guess if NAME.fullmatch(guess) else SPYRE
    return guess, [f"device {guess} is assumed: nothing here names PrivateUse1; --device names another"]


def _by_file(sources: Sources) -> Mapping[str, Iterable[str]]:
    python = names_in_python(sources.python)
    cxx = {path: names for path, text in sources.cxx.items() if (names := names_in_cxx(text))}
    return {**python, **cxx}
