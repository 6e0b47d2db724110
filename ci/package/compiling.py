"""What a build is given: a time, as many compilers as the container holds, each behind ccache."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

# Of a project that is in no repository: zip archives know no earlier time.
_FIRST_TIME = 315532800
_COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "clang++")


def moment(environ: Mapping[str, str], committed_at: int) -> int:
    """The time of what is built, in seconds since the epoch (SOURCE_DATE_EPOCH).

    Args:
        environ: the user's, whose own time wins.
        committed_at: of the commit; 0 where there is none.
    """
    told = environ.get("SOURCE_DATE_EPOCH", "")
    return int(told) if told.isdecimal() else max(committed_at, _FIRST_TIME)


def jobs_environment(environ: Mapping[str, str], jobs: int) -> dict[str, str]:
    """The variables that say how many compilers run side by side; what the user set stays.

    Args:
        environ: the user's.
        jobs: as many as fit (`ci.core.resources.compile_jobs`).
    """
    names = ("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")
    return {name: environ.get(name) or str(jobs) for name in names}


def cache_environment(environ: Mapping[str, str], work: Path) -> dict[str, str]:
    """The variables by which compilers run behind ccache; none where it is not installed.

    Its `PATH` begins with a folder of links to ccache in the compilers' names, which every build tool takes.
    Paths below `work` count as relative, so that another build of the same files finds them.

    Args:
        environ: the user's.
        work: the folder the build is in.
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
        "CCACHE_BASEDIR": str(work),
        "CCACHE_NOHASHDIR": "true",
        # Copies of one commit have times of their own, and each build's headers are installed anew.
        "CCACHE_SLOPPINESS": "include_file_ctime,include_file_mtime,time_macros",
        "CCACHE_COMPILERCHECK": "content",
    }
    return {**given, **{name: environ[name] for name in given if environ.get(name)},
            "PATH": os.pathsep.join([str(links), path])}  # fmt: skip
