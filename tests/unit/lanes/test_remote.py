from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import SpyreCiError
from ci.lanes.order import Order, Seen, Standing
from ci.lanes.remote import (
    Brought,
    MovedError,
    NotSubmittedError,
    Remote,
    UnsettledError,
    ended,
    of_code,
    settled,
)
from ci.report.history import History, overview
from tests.past_runs import take_in
from tests.pipeline_runs import T0, report_folder


class AwayError(SpyreCiError):
    exit_code = 3


class DeniedError(SpyreCiError):
    pass


@dataclass
class Place:
    """A place that does as it is told."""

    settle_s: float = 10.0
    place: str = "here"
    denied: bool = False
    started: list[str] = field(default_factory=list)
    listed: bool = True
    lost: bool = False
    refused: bool = False
    seen: Seen = field(default_factory=lambda: Seen(standing=Standing.RUNNING))
    brought: list[Brought | SpyreCiError] = field(default_factory=list)
    brings: int = 0

    def check(self, order: Order) -> None:
        if self.refused:
            raise NotSubmittedError(f"no {order.id}")

    def find(self, order: Order) -> str | None:
        if self.denied:
            raise DeniedError("no such token")
        return order.id if self.listed and order.id in self.started else None

    def start(self, order: Order) -> str:
        self.started.append(order.id)
        if self.lost:
            raise AwayError("no answer")
        return order.id

    def look(self, order: Order, reference: str) -> Seen:
        assert reference == order.id
        return self.seen

    def cancel(self, order: Order, reference: str) -> None:
        assert reference == order.id

    def bring(self, order: Order, reference: str) -> Brought:
        assert reference == order.id
        self.brings += 1
        found = self.brought.pop(0) if self.brought else Brought()
        if isinstance(found, SpyreCiError):
            raise found
        return found


@pytest.fixture
def order(tmp_path: Path) -> Order:
    return Order(lane="nightly", due=100, attempt=1, seed=0, folder=tmp_path)


def remote(place: Place, now: list[float], *, history: Path = Path("no") / "store.sqlite") -> Remote:
    def remember(folder: Path, run: str, lane: str) -> None:
        take_in(history, folder, now=now[0], run=run, lane=lane)

    return Remote(far=place, clock=lambda: now[0], wants_results=True, remember=remember)


def test_a_start_comes_once_whoever_asks_and_however_often(order: Order) -> None:
    place, now = Place(lost=True, listed=False), [1000.0]
    with pytest.raises(AwayError):
        remote(place, now).start(order)
    for seconds in (0.0, 5.0, -5.0):
        now[0] = 1000.0 + seconds
        with pytest.raises(UnsettledError):
            remote(place, now).start(order)
    place.listed, place.lost = True, False
    assert remote(place, now).start(order) == order.id
    assert place.started == [order.id]


@pytest.mark.parametrize("later", [10.0, -3600.0])
def test_a_start_that_nobody_took_is_made_again_whatever_the_clock_did(order: Order, later: float) -> None:
    place, now = Place(lost=True), [1000.0]
    with pytest.raises(AwayError):
        remote(place, now).start(order)
    place.started.clear()
    place.lost, now[0] = False, 1000.0 + later
    assert remote(place, now).start(order) == order.id


def test_a_start_whose_answer_took_its_time_is_not_over_before_it_is_lost(order: Order) -> None:
    now = [1000.0]

    class Late(Place):
        """A place that is waited for, and takes it in the last moment."""

        def start(self, order: Order) -> str:
            now[0] += 30
            return super().start(order)

    place = Late(lost=True, listed=False)
    with pytest.raises(AwayError):
        remote(place, now).start(order)
    now[0] += 9
    with pytest.raises(UnsettledError, match="9 s ago"):
        remote(place, now).start(order)
    assert place.started == [order.id]


def test_a_run_is_not_asked_for_where_it_was_not_started(order: Order) -> None:
    place, elsewhere = Place(), Place(place="there")
    remote(place, [0.0]).start(order)
    moved = remote(elsewhere, [0.0])
    asks: list[Callable[[], object]] = [
        lambda: moved.find(order),
        lambda: moved.start(order),
        lambda: moved.look(order, order.id),
        lambda: moved.cancel(order, order.id),
        lambda: moved.fetch(order, order.id),
    ]
    for ask in asks:
        with pytest.raises(MovedError, match="started at here, and its lane is at another place now: there"):
            ask()
    assert elsewhere.started == []
    # Another time: its old place may come back.
    assert MovedError.exit_code == 3
    assert remote(place, [0.0]).look(order, order.id).standing is Standing.RUNNING


def test_who_may_not_look_for_a_start_that_was_asked_for_does_not_end_it(order: Order) -> None:
    place, now = Place(lost=True, denied=True), [1000.0]
    with pytest.raises(DeniedError):
        remote(place, now).start(order)
    place.denied = False
    with pytest.raises(AwayError):
        remote(place, now).start(order)
    place.denied = True
    for ask in (remote(place, now).find, remote(place, now).start):
        with pytest.raises(UnsettledError, match="what became of it is not told: no such token"):
            ask(order)


def test_what_is_refused_was_not_asked_for(order: Order) -> None:
    place = Place(refused=True)
    with pytest.raises(NotSubmittedError):
        remote(place, [0.0]).start(order)
    place.refused = False
    assert remote(place, [0.0]).start(order) == order.id


def test_results_come_once_and_what_is_away_is_asked_for_again(order: Order) -> None:
    place = Place(seen=Seen(standing=Standing.FAILED, exit_code=1, said="failed"))
    place.brought = [AwayError("away"), AwayError("away"), Brought(codes=[1], notes=["a note"])]
    executor = remote(place, [0.0])
    assert executor.look(order, order.id).exit_code == 3
    with pytest.raises(AwayError):
        executor.fetch(order, order.id)
    seen = executor.look(order, order.id)
    assert (seen.exit_code, seen.said) == (1, "failed; a note")
    executor.fetch(order, order.id)
    assert remote(place, [0.0]).look(order, order.id) == seen
    assert place.brings == 3


def test_a_history_that_cannot_be_written_reddens_nothing_and_is_told(order: Order, tmp_path: Path) -> None:
    place = Place(seen=Seen(standing=Standing.PASSED, exit_code=0))
    place.brought = [Brought(codes=[0], runs=[tmp_path / "results" / "0"])]
    seen = remote(place, [0.0]).look(order, order.id)
    assert seen.exit_code == 0
    assert seen.said.startswith("not in the history, which `spyre-ci history import ")


def test_two_artifacts_of_one_run_and_two_builds_of_one_number_are_runs_of_their_own(tmp_path: Path) -> None:
    history = tmp_path / "history.sqlite"
    for lane in ("pinned", "main"):
        for due in (100, 200):
            order = Order(lane=lane, due=due, attempt=1, seed=0, folder=tmp_path / lane / str(due))
            runs = [report_folder(order.folder / str(one) / "ci", {"t.py::t": "passed"}) for one in range(2)]
            place = Place(
                seen=Seen(standing=Standing.PASSED, exit_code=0), brought=[Brought(codes=[0, 0], runs=runs)]
            )
            executor = remote(place, [T0 + 60], history=history)
            assert executor.look(order, order.id).said == ""
            (order.folder / "brought.json").unlink()  # killed before it was noted
            place.brought = [Brought(codes=[0, 0], runs=runs)]
            executor.fetch(order, order.id)
    with sqlite3.connect(history) as store:
        found = store.execute("SELECT run, lane FROM job_detail").fetchall()
    assert len(found) == 8
    assert ("main-200-1/1", "main") in found
    (by_device,), _ = overview(History(history))
    assert by_device.runs == 8


def test_nothing_is_brought_of_what_goes_on_or_is_gone(order: Order) -> None:
    for standing in (Standing.RUNNING, Standing.STARTING, Standing.GONE):
        place = Place(seen=Seen(standing=standing))
        assert remote(place, [0.0]).look(order, order.id) == place.seen
        assert place.brings == 0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["taken", "taken, answer lost", "answer lost", "refused", "killed before"]),
            st.floats(0, 30),
            st.floats(0, 30),
        ),
        max_size=12,
    ),
    st.floats(0, 10),
)
def test_whatever_is_lost_and_however_often_it_is_asked_for_nothing_is_started_twice(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, float, float]], lag: float
) -> None:
    order = Order(lane="nightly", due=100, attempt=1, seed=0, folder=tmp_path_factory.mktemp("order"))
    now, taken_at = [1000.0], list[float]()

    class Slow(Place):
        """A place that takes its time, and lists what it took after a while."""

        how, takes_s = "", 0.0

        def check(self, order: Order) -> None:
            if self.how == "refused":
                raise NotSubmittedError(order.id)

        def find(self, order: Order) -> str | None:
            return order.id if any(now[0] - at >= lag for at in taken_at) else None

        def start(self, order: Order) -> str:
            now[0] += self.takes_s
            if self.how.startswith("taken"):
                taken_at.append(now[0])
            if self.how != "taken":
                raise AwayError("no answer")
            return order.id

    place, references = Slow(), []
    for place.how, place.takes_s, seconds in steps:
        with contextlib.suppress(SpyreCiError):
            references.append(remote(place, now).start(order))
        now[0] += seconds
    assert len(taken_at) <= 1
    assert set(references) <= {order.id}


@pytest.mark.parametrize(
    ("codes", "standing", "code"),
    [
        ([0, 0], Standing.PASSED, 0),
        ([0, 1], Standing.FAILED, 1),
        ([1, 3], Standing.INCOMPLETE, 3),
        ([2, 3], Standing.INCOMPLETE, 2),
        ([77], Standing.INCOMPLETE, 3),
        ([130], Standing.INCOMPLETE, 3),
        ([], Standing.PASSED, 0),
    ],
)
def test_results_say_how_a_green_run_ended(codes: list[int], standing: Standing, code: int) -> None:
    seen = settled(ended(Standing.PASSED), codes, wants_results=True)
    assert (seen.standing, seen.exit_code) == (standing, code)


@pytest.mark.parametrize(
    ("codes", "wants", "standing", "code"),
    [
        ([0], True, Standing.FAILED, 1),  # something else of it failed
        ([3], True, Standing.INCOMPLETE, 3),
        ([1], False, Standing.FAILED, 1),
        ([], False, Standing.FAILED, 1),
        ([], True, Standing.INCOMPLETE, 3),
    ],
)
def test_a_red_run_is_never_green(codes: list[int], *, wants: bool, standing: Standing, code: int) -> None:
    seen = settled(ended(Standing.FAILED, "it failed"), codes, wants_results=wants)
    assert (seen.standing, seen.exit_code) == (standing, code)
    assert seen.said.startswith("it failed")


@pytest.mark.parametrize(
    "standing", [Standing.CANCELLED, Standing.TIMED_OUT, Standing.GONE, Standing.INCOMPLETE]
)
def test_what_did_not_come_to_its_end_stays_so_whatever_it_reported(standing: Standing) -> None:
    seen = ended(standing, "why")
    assert settled(seen, [0], wants_results=True) == seen


@pytest.mark.parametrize(
    ("code", "standing"), [(0, "passed"), (1, "failed"), (2, "incomplete"), (9, "incomplete")]
)
def test_an_exit_code_is_a_standing(code: int, standing: str) -> None:
    assert of_code(code).standing == standing
    assert of_code(9).exit_code == 3
