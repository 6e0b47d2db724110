"""Whatever a journal may hold: a strategy for hypothesis, over one small plan."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from ci.record.journal import OUTCOMES, Journal
from test_selection.plan import Group, Plan, Shard
from tests.journal_rows import events_from

A, B, C, D = "a.py::T::one", "a.py::T::two", "b.py::T::three", "b.py::T::four"


def make_plan(*shards: dict[str, list[str]]) -> Plan:
    made = tuple(
        Shard(
            index=index,
            expected_s=10,
            groups=tuple(Group(file=file, ids=tuple(ids)) for file, ids in groups.items()),
        )
        for index, groups in enumerate(shards)
    )
    return Plan(fingerprint="f", bound_s=1, makespan_s=10, binds="cards", shards=made)


PLAN = make_plan({"a.py": [A, B]}, {"b.py": [C, D]})


NAMES = st.sampled_from([A, B, C, D, "z.py::unplanned"])
MESSAGES = st.one_of(st.none(), st.text(max_size=5), st.integers())
ODD = st.one_of(st.none(), st.text(max_size=3), st.floats(), st.integers(), st.just([]), st.just({}))
EVENTS = st.one_of(
    st.fixed_dictionaries({"e": st.just("start"), "id": NAMES}, optional={"try": st.integers(1, 4) | ODD}),
    st.fixed_dictionaries(
        {"e": st.just("piece"), "why": st.sampled_from(["plan", "stolen", "retry"]) | ODD},
        optional={"attempt": st.integers(1, 4) | ODD},
    ),
    st.fixed_dictionaries({"e": st.just("no_retry"), "ids": st.lists(NAMES) | ODD, "message": MESSAGES}),
    st.fixed_dictionaries(
        {"e": st.just("end"), "id": NAMES, "outcome": st.sampled_from(OUTCOMES), "seconds": st.floats()}
    ),
    st.fixed_dictionaries({"e": st.just("crash"), "id": NAMES, "cause": MESSAGES, "message": MESSAGES}),
    st.fixed_dictionaries({"e": st.just("worker_lost"), "id": st.one_of(st.none(), NAMES)}),
    st.fixed_dictionaries({"e": st.just("not_run"), "ids": st.lists(NAMES), "message": MESSAGES}),
    st.fixed_dictionaries({"e": st.just("file_error"), "file": st.sampled_from(["a.py", "b.py"])}),
    st.fixed_dictionaries({"e": st.just("group_start"), "file": st.sampled_from(["a.py", "b.py"])}),
    st.fixed_dictionaries({"e": st.just("group_ready"), "file": ODD, "setup_s": ODD}),
    st.fixed_dictionaries({"e": st.just("shard_start"), "fingerprint": st.sampled_from(["f", "g", ""])}),
    st.fixed_dictionaries({"e": st.just("shard_end"), "status": st.sampled_from(["done", "interrupted"])}),
    st.dictionaries(st.sampled_from(["id", "ids", "outcome", "file"]), ODD).map(lambda d: {"e": "end", **d}),
)
TIMED = st.builds(lambda t, event: {"t": t, **event}, st.floats() | st.integers(0, 9), EVENTS)


@st.composite
def journals_of(draw: st.DrawFn) -> list[Journal]:
    """Any events in any order, some twice, over a few attempts of planned and unplanned shards."""
    made = []
    for _ in range(draw(st.integers(0, 4))):
        events = draw(st.lists(TIMED, max_size=12))
        again = draw(st.lists(st.sampled_from(events), max_size=4)) if events else []
        mixed = draw(st.permutations(events + again))
        made.append(
            Journal(
                path=Path("x"),
                shard=draw(st.integers(0, 2)),
                attempt=draw(st.sampled_from([1, 2, 3, 101, 102, 201])),
                events=events_from(mixed),
                torn=draw(st.integers(0, 2)),
            )
        )
    return made
