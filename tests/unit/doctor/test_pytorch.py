"""torch against its pin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ci.doctor.finding import Level
from ci.doctor.pytorch import TorchFacts, build_of, judge_torch


def told(version: str = "2.13.0+cpu", **more: Any) -> dict[str, Any]:
    return {"version": version, "file": "/e/torch/__init__.py", "git": "f" * 40, **more}


FACTS = TorchFacts(there=True, told=told(), pin="2.13.0", python="/my env/python", limit_s=30)


@pytest.mark.parametrize(
    ("more", "build"),
    [
        ({"version": "2.13.0"}, "CPU"),
        ({"version": "2.13.0+cpu"}, "CPU"),
        ({"version": "2.13.0+cu130", "cuda": "13.0"}, "CUDA 13.0"),
        ({"version": "2.13.0", "cuda": "13.0"}, "CUDA 13.0"),
        ({"version": "2.13.0+rocm6.4", "hip": "6.4"}, "ROCm 6.4"),
        ({"version": "2.13.0+xpu", "xpu": "2026"}, "XPU 2026"),
        ({"version": "2.13.0a0+gitabc"}, "CPU build of somebody's own"),
        ({"version": "2.13.0a0+gitabc", "cuda": "13.0"}, "CUDA 13.0 build of somebody's own"),
    ],
)
def test_a_build_is_named(more: dict[str, Any], build: str) -> None:
    assert build_of(told(**more)) == build


@pytest.mark.parametrize(
    ("facts", "level", "words"),
    [
        (FACTS, Level.OK, "2.13.0+cpu, CPU at ffffffffffff, /e/torch/__init__.py; the pin is 2.13.0"),
        (replace(FACTS, pin=""), Level.OK, "no pin is known here"),
        (replace(FACTS, told=told("2.13.0a0+git1")), Level.OK, "build of somebody's own"),
        (replace(FACTS, told=told("2.12.1")), Level.FAULT, "2.12.1, CPU"),
        (replace(FACTS, told=told("nonsense")), Level.FAULT, "the pin is 2.13.0"),
        (replace(FACTS, told=told("2.14.0.dev1"), variant="main"), Level.WARNING, "image.variant is main"),
        (replace(FACTS, told={}, there=False), Level.FAULT, "not installed in this environment"),
        (replace(FACTS, told={}, there=False, nox=True), Level.WARNING, "`nox -s pytorch` installs 2.13.0"),
        (
            replace(FACTS, told={}, why="ImportError: libomp.so"),
            Level.FAULT,
            "cannot be imported: ImportError",
        ),
        (replace(FACTS, told={}, late=True), Level.WARNING, "did not end within 30 s"),
        # That it is late says nothing of a torch, and nox none either.
        (replace(FACTS, told={}, late=True, there=False), Level.WARNING, "did not end within 30 s"),
    ],
)
def test_torch_is_the_one_that_is_pinned_or_it_is_said(facts: TorchFacts, level: Level, words: str) -> None:
    (found,) = judge_torch(facts)
    assert found.level is level
    assert words in found.said
    if level is Level.FAULT:
        assert found.remedy.startswith("'/my env/python' -m pip install torch==2.13.0")


def test_what_pytorchs_tests_need_besides_is_a_fault() -> None:
    first, second = judge_torch(replace(FACTS, lacking=("expecttest", "scipy")))
    assert first.level is Level.OK
    assert second.level is Level.FAULT
    assert second.remedy == "'/my env/python' -m pip install expecttest scipy"
