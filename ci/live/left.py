"""How long a run still takes: by the seconds expected of what is left, as they proved so far. Pure."""

from __future__ import annotations

from ci.live.state import State

# So many expected seconds must have ended before what they took outweighs the estimates.
PRIOR_S = 20.0


def seconds_left(state: State, now: float) -> float | None:
    """Seconds until every test is settled; None where no card is left to settle them.

    The seconds left, corrected by what ended tests took (a file's own where it has some), over the cards;
    never less than the longest thing that one card must do by itself.

    Args:
        state: of the run.
        now: monotonic seconds.
    """
    if not state.left:
        return 0.0
    cards = len(state.able)
    if not cards:
        return None
    pace = (state.ran_s + PRIOR_S) / (state.told_s + PRIOR_S)
    total = longest = 0.0
    scales: dict[str, float] = {}
    for name, tally in state.unended.items():
        scale = (tally.ran_s + PRIOR_S * pace) / (tally.told_s + PRIOR_S)
        scales[name] = scale
        total += max(tally.left_s, 0.0) * scale
        if tally.began_at is None:
            total += tally.setup_s
            longest = max(longest, tally.setup_s + tally.longest_s * scale)
    for stream in state.at_work:
        elapsed = now - stream.since
        if stream.running is not None and state.verdict(stream.running) is None:
            expected = state.expected_s(stream.running) * scales.get(stream.file, pace)
            total -= min(elapsed, expected)
            longest = max(longest, expected - elapsed)
        elif stream.setting_up and stream.file in state.files:
            remaining = max(state.files[stream.file].setup_s - elapsed, 0.0)
            total += remaining
            longest = max(longest, remaining)
    return max(total / min(cards, state.left), longest, 0.0)
