"""Files over as many ConfigMaps as they take: each below what one may hold, and not too many; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ci.core.errors import SettingsError

# A ConfigMap holds 1 MiB, https://kubernetes.io/docs/concepts/configuration/configmap/; below it is room for
# what else the object has.
BOUND = 900 * 1024
# Every pod mounts all of them, so that what is larger goes by volume.
MAX_CONFIG_MAPS = 16
# `..` begins what the kubelet keeps beside the files, ..data among them.
_KEY = re.compile(r"(?!\.\.)(?!\.$)[-._a-zA-Z0-9]{1,253}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """What one ConfigMap holds.

    Attributes:
        files: content by key.
        paths: path by key, of all its files; empty where every key is its file's path.
    """

    files: Mapping[str, bytes]
    paths: Mapping[str, str]


def too_large(files: Mapping[str, bytes]) -> bool:
    """Whether files do not go into ConfigMaps: one of them by itself, or all together."""
    return _packed(files) is None


def parcels(files: Mapping[str, bytes]) -> list[Parcel]:
    """Files by ConfigMap; the same files give the same.

    Args:
        files: content by path, relative to where they are mounted.

    Raises:
        SettingsError: they do not go into ConfigMaps.
    """
    packed = _packed(files)
    if packed is None:
        size = sum(map(len, files.values()))
        raise SettingsError(
            f"{len(files):,} files of {size:,} bytes are more than {MAX_CONFIG_MAPS} ConfigMaps hold",
            where="configs",
            remedy="fetch what is large with `source`, or put it into the image",
        )
    keys = _keys(files)
    return [_parcel({keys[path]: path for path in sorted(paths)}, files) for paths in packed]


def _parcel(paths: Mapping[str, str], files: Mapping[str, bytes]) -> Parcel:
    plain = all(key == path for key, path in paths.items())
    return Parcel(files={key: files[path] for key, path in paths.items()}, paths={} if plain else paths)


def _keys(files: Mapping[str, bytes]) -> dict[str, str]:
    """A key for each path: itself, or a number where a ConfigMap does not take it, as for a folder's file."""
    found: dict[str, str] = {}
    number = 0
    for path in sorted(files):
        key = path
        while not _KEY.fullmatch(key) or (key != path and key in files):
            key = f"file-{number}"
            number += 1
        found[path] = key
    return found


def _packed(files: Mapping[str, bytes]) -> list[list[str]] | None:
    """Paths by ConfigMap, first fit decreasing; None where there is no room."""
    rooms: list[int] = []
    found: list[list[str]] = []
    for path in sorted(files, key=lambda one: (-len(files[one]), one)):
        size = len(files[path]) + len(path.encode())
        at = next((at for at, room in enumerate(rooms) if room >= size), len(rooms))
        if at == len(rooms):
            if size > BOUND or at == MAX_CONFIG_MAPS:
                return None
            rooms.append(BOUND)
            found.append([])
        rooms[at] -= size
        found[at].append(path)
    return found
