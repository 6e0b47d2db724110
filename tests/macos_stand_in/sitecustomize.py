"""Stands in for macOS on Linux: a Python that has this folder on its path lacks what one there lacks.

It is no macOS: the kernel, the C library, torch and the file system stay Linux's. It shows that nothing which
macOS lacks is needed: `sys.platform` is darwin, `multiprocessing` spawns, there is no /proc, no /sys, no
/dev/shm, no prctl(2), and none of the functions below; what forks by `os.fork` fails. (macOS has that call,
but not safely: nobody here is to need it.) `platform.system()` stays, by which torch finds its libraries.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import sysconfig
import types
from typing import Any, NoReturn

# While this is Linux: psutil stands for its macOS self, and reads what nobody else may.
import psutil  # noqa: F401

GONE = ("/proc", "/sys", "/dev/shm", "/run/lock")  # noqa: S108  # names, not files
# It is kept, and named for the system it was made on.
sysconfig.get_config_vars()
# The standard library's documentation has all of these without macOS.
LACKS: dict[Any, tuple[str, ...]] = {
    os: (
        "copy_file_range", "eventfd", "fdatasync", "getrandom", "getresuid", "memfd_create", "O_PATH",
        "O_TMPFILE", "P_PIDFD", "pidfd_open", "pipe2", "posix_fadvise", "posix_fallocate",
        "sched_getaffinity", "sched_setaffinity", "splice", "waitid",
    ),
    select: ("epoll",),
    signal: ("pidfd_send_signal", "sigtimedwait", "sigwaitinfo"),
}  # fmt: skip
_FRAMES = 6


def _gone(path: object) -> bool:
    """Whether macOS has no such file; psutil has its own ways there."""
    try:
        name = os.fsdecode(os.fspath(path))  # type: ignore[call-overload]  # numbers of descriptors are none
    except TypeError:
        return False
    return any(name == one or name.startswith(f"{one}/") for one in GONE) and not _psutil()


def _psutil() -> bool:
    frame: types.FrameType | None = sys._getframe(2)
    for _ in range(_FRAMES):
        if frame is None:
            return False
        if str(frame.f_globals.get("__name__", "")).startswith("psutil"):
            return True
        frame = frame.f_back
    return False


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event in {"open", "os.listdir", "os.scandir"} and _gone(arguments[0]):
        raise FileNotFoundError(errno.ENOENT, "no such file, as on macOS", arguments[0])
    if event == "ctypes.dlsym" and arguments[1] == "prctl":
        raise AttributeError("macOS has no prctl")


def _looking(name: str) -> None:
    """Have a function of `os` that looks at a path see none of what is gone."""
    real = getattr(os, name)

    def looked(path: Any, *args: Any, **kwargs: Any) -> Any:
        if _gone(path):
            raise FileNotFoundError(errno.ENOENT, "no such file, as on macOS", path)
        return real(path, *args, **kwargs)

    setattr(os, name, looked)


def _no_fork() -> NoReturn:
    raise OSError(errno.ENOSYS, "nobody is to need os.fork where it is not safe")


def _no_settings() -> dict[str, Any]:
    return {"exclude_simple": False}


for _owner, _names in LACKS.items():
    for _name in _names:
        if hasattr(_owner, _name):
            delattr(_owner, _name)
for _name in ("stat", "lstat", "readlink", "access"):
    _looking(_name)
os.fork = _no_fork
os.forkpty = _no_fork
# What Python asks macOS for proxies by.
_proxies = types.ModuleType("_scproxy")
vars(_proxies).update(_get_proxies=_no_settings, _get_proxy_settings=_no_settings)
sys.modules["_scproxy"] = _proxies
sys.platform = "darwin"
sys.addaudithook(_audit)
