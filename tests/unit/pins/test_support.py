from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ci.config.pins_model import Suite
from ci.pins.record import Parameter, Record
from ci.pins.signatures import Signature
from ci.pins.support import _meets, unsupported
from tests.pin_tracks import release

PATH = Parameter(name="path", kind="positional or keyword")
MMAP = Parameter(name="mmap", kind="positional or keyword")


def fewer(before: Signature, after: Signature) -> Sequence[str]:
    return [f"{one.name} is gone" for one in before if one not in after]


def why(
    suite: Suite, packages: dict[str, str], before: Record | None = None, after: Record | None = None
) -> tuple[str, ...]:
    record = after or release("2.13.0", 20, packages=packages)
    found = unsupported([suite], before, record, fewer)
    assert all(one.suite == suite.name for one in found)
    return found[0].why if found else ()


@pytest.mark.parametrize(
    ("need", "there", "held"),
    [
        ("torch>=2.11,<3", "2.11.0", True),
        ("torch>=2.11,<3", "2.10.1", False),
        ("torch>=2.11,<3", "3.0", False),
        ("torch==2.13.0", "2.13.0+cpu", True),
        ("torch>=2.11", "2.14.0.dev20261101", True),
        ("torch", "2.13.0", True),
        # What the metadata of a package requires is a range, or nothing in particular.
        ("torch>=2.11", ">=2.4", True),
        ("torch>=2.11", "==2.13.0", True),
        ("torch>=2.11", "==2.10.0", False),
        ("torch>=2.11", "<2.11", False),
        ("torch>2.11", "<=2.11", False),
        ("torch<2.11", "<3,!=2.12", True),
        ("torch==2.11.*", ">2.11.3", True),
        ("torch~=2.11.0", ">=2.12", False),
        ("torch>=2.11", "", True),
        # As `parse_metadata` writes it.
        ("torch>=2.11", "*", True),
        ("torch>=3", '==3.5.0; platform_system == "Linux"', True),
        ("torch<3", '==3.5.0; platform_system == "Linux"', False),
        ("torch>=2.11", "[opt-einsum]>=2", True),
        ("torch>=2.11", "[opt-einsum]<2", False),
        ("torch>=2.11", '<2; extra == "old" | >=2.12; extra == "new"', True),
        ("torch>=2.11", '<2; extra == "old" | ==2.0; extra == "new"', False),
        ("torch>=2.11", '; python_version < "4"', True),
        ("torch>=2.11", "<2 | @ https://host.example/torch | >=2", True),
    ],
)
def test_what_a_suite_needs_is_held_against_the_packages(need: str, there: str, held: bool) -> None:
    suite = Suite(name="s", needs=[need])
    said = () if held else (f"needs `{need}`, and it has `{there or '-'}`",)
    assert why(suite, {"torch": there}) == said


@pytest.mark.parametrize(
    "there",
    ["unknown", "git+https://host.example/torch", "@ https://host.example/torch.whl", "<2 | @ https://h/t"],
)
def test_what_cannot_be_shown_deprecates_nothing_and_is_asked(there: str) -> None:
    suite = Suite(name="s", needs=["torch>=2.11"])
    [found] = unsupported([suite], None, release("2.13.0", 20, packages={"torch": there}), fewer)
    assert (found.certain, found.why) == (False, (f"needs `torch>=2.11`, and it has `{there}`",))
    sure = Suite(name="s", needs=["torch>=2.11", "x"])
    [found] = unsupported([sure], None, release("2.13.0", 20, packages={"torch": there}), fewer)
    assert (found.certain, found.why) == (True, ("needs `x`, which it does not have",))


def test_a_package_that_is_not_there_is_told() -> None:
    assert why(Suite(name="s", needs=["flash-attn>=2"]), {"torch": "2.13.0"}) == (
        "needs `flash-attn>=2`, which it does not have",
    )


def test_a_package_is_known_by_any_spelling_of_its_name() -> None:
    assert why(Suite(name="s", needs=["Flash_Attn>=2"]), {"flash-attn": "2.8"}) == ()


def signatures(**found: tuple[Parameter, ...] | None) -> Record:
    return release("2.13.0", 20, signatures={name.replace("_", ":"): one for name, one in found.items()})


SUITE = Suite(name="s", calls=["m:f"])


def test_a_call_that_breaks_is_told() -> None:
    before, after = signatures(m_f=(PATH, MMAP)), signatures(m_f=(PATH,))
    assert why(SUITE, {}, before, after) == ("`m:f`: `mmap is gone`",)


def test_an_entry_point_that_is_gone_is_told() -> None:
    assert why(SUITE, {}, signatures(m_f=(PATH,)), signatures(m_f=None)) == ("`m:f` is gone",)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, signatures(m_f=(PATH,))),
        (signatures(m_f=(PATH,)), signatures(m_f=(PATH, MMAP))),
        (signatures(m_f=None), signatures(m_f=(PATH,))),
        (signatures(m_f=None), signatures(m_f=None)),
        (signatures(), signatures(m_f=None)),
        (signatures(m_f=(PATH,)), signatures()),
        (signatures(m_f=(PATH,), m_g=(PATH, MMAP)), signatures(m_f=(PATH,), m_g=None)),
    ],
    ids=[
        "nothing pinned", "takes more", "is new", "was never there", "was not looked at", "is not looked at",
        "another breaks",
    ],
)  # fmt: skip
def test_a_call_that_nothing_is_known_against_holds(before: Record | None, after: Record) -> None:
    assert why(SUITE, {}, before, after) == ()


def test_each_suite_by_itself_and_in_its_order() -> None:
    suites = [
        Suite(name="b", needs=["x"]),
        Suite(name="ok", needs=["torch"]),
        Suite(name="a", needs=["y", "z"]),
    ]
    found = unsupported(suites, None, release("2.13.0", 20), fewer)
    assert [(one.suite, len(one.why)) for one in found] == [("b", 1), ("a", 2)]


NUMBERS = st.sampled_from(["0.9", "1.0", "1.0.1", "1.1", "1.5", "2.0", "2.0.post1"])
RANGES = st.lists(
    st.builds(str.__add__, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), NUMBERS), max_size=3
)


@given(RANGES, RANGES)
def test_two_ranges_meet_wherever_any_version_is_in_both(given_: list[str], needed: list[str]) -> None:
    one, other = SpecifierSet(",".join(given_)), SpecifierSet(",".join(needed))
    shown = [f"{major}.{minor}.{patch}" for major in range(4) for minor in range(7) for patch in range(3)]
    shown += ["2.0.post1", "2.0.post2"]
    common = any(one.contains(Version(text)) and other.contains(Version(text)) for text in shown)
    assert _meets(str(one), other) or not common
