"""Whether another host could do more for what ran here. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ci.record.journal import Journal
from ci.record.verdict import NO_OUTCOME, Verdict
from ci.report.reconcile import reconcile
from ci.runner.resume import pending_retries
from test_selection.plan import Plan


def only_cards_failed(plan: Plan, journals: Sequence[Journal], retries: int) -> bool:
    """Whether nothing is left to run, on other cards either, and what is missing is the fault of cards.

    Args:
        plan: of what was to run here.
        journals: all there are of it.
        retries: how often a test that failed is run again.
    """
    account = reconcile(plan, journals)
    counts = account.counts
    if account.holes or not counts[Verdict.HARDWARE] or any(counts[verdict] for verdict in NO_OUTCOME):
        return False
    faults = {one.id for one in account.results if one.verdict is Verdict.HARDWARE}
    return not any(one.id in faults for one in pending_retries(journals, retries, boot=""))
