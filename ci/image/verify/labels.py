"""Whether an image's labels are there and say what was resolved; pure."""

from __future__ import annotations

from collections.abc import Mapping

from ci.core.findings import Finding, judged
from ci.image.verify.expected import Expected

MOST_SHOWN = 5


def check_labels(labels: Mapping[str, str], expected: Expected) -> Finding:
    """Each label is there with its value, however many more there are.

    Args:
        labels: the image's.
        expected: what it is held to.
    """
    missing = sorted({*expected.needed, *expected.labels} - set(labels))
    other = sorted(
        name for name, value in expected.labels.items() if name in labels and labels[name] != value
    )
    wrong = [f"{name} is missing" for name in missing]
    wrong += [f"{name} is {labels[name] or 'empty'}, not {expected.labels[name]}" for name in other]
    more = f"; and {len(wrong) - MOST_SHOWN} more" if len(wrong) > MOST_SHOWN else ""
    right = (
        f"all {len(expected.labels)} as resolved" if expected.labels else f"{len(labels)}, none is missing"
    )
    return judged(
        "labels",
        "; ".join(wrong[:MOST_SHOWN]) + more if wrong else right,
        holds=not wrong,
        remedy="build it with `spyre-ci image build`, from the stack and the refs it is compared with",
    )
