"""What a build of C++ is given: as many jobs as the container holds, and a compiler behind ccache."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "clang++")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUse:
    """What a compiler cache did in a build.

    Attributes:
        hits: files it had.
        misses: files that were compiled.
    """

    hits: int
    misses: int


def jobs_environment(environ: Mapping[str, str], jobs: int) -> dict[str, str]:
    """The variables that say how many compilers run side by side; what the user set stays.

    Args:
        environ: the user's.
        jobs: as many as fit (`ci.resources.compile_jobs`).
    """
    names = ("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")
    return {name: environ.get(name) or str(jobs) for name in names}


def cache_environment(environ: Mapping[str, str], work: Path) -> dict[str, str]:
    """The variables by which compilers run behind ccache; none where it is not installed.

    Its `PATH` begins with a folder of links to ccache in the compilers' names, which every build tool takes.
    Paths below `work` count as relative, so that another build of the same files finds them.

    Args:
        environ: the user's.
        work: the folder the build and its environment are in.
    """
    path = environ.get("PATH", os.defpath)
    ccache = shutil.which("ccache", path=path)
    if ccache is None:
        return {}
    links = work / "ccache"
    links.mkdir(parents=True, exist_ok=True)
    for name in _COMPILERS:
        if shutil.which(name, path=path) and not (links / name).is_symlink():
            (links / name).symlink_to(ccache)
    given = {
        "PATH": os.pathsep.join([str(links), path]),
        "CCACHE_BASEDIR": str(work),
        "CCACHE_NOHASHDIR": "true",
        # Copies of one commit have times of their own, and each build's headers are installed anew.
        "CCACHE_SLOPPINESS": "include_file_ctime,include_file_mtime,time_macros",
        "CCACHE_COMPILERCHECK": "content",
        "CCACHE_STATSLOG": str(work / "ccache.log"),
    }
    return {name: environ.get(name) or value if name != "PATH" else value for name, value in given.items()}


def cache_use(log: Path) -> CacheUse | None:
    """What ccache did, by its log of one build; None where it was not asked."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        return None
    hits = sum(line in {"direct_cache_hit", "preprocessed_cache_hit"} for line in lines)
    return CacheUse(hits=hits, misses=lines.count("cache_miss"))
