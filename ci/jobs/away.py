"""Nodes that do not answer for their pods' logs, told apart from a cluster that does not; pure.

The API server fetches a log from the pod's node, and fails itself (5xx) where that does not answer.
"""

from __future__ import annotations

# One node is not to make the logs of all others wait: so long its first is asked for, its others once.
LOG_PATIENCE_S = 15.0
# So many nodes one after another are the cluster itself.
MOST_AWAY = 3


class Away:
    """What is known of nodes while one log after another is asked for."""

    def __init__(self) -> None:
        self._nodes: set[str] = set()
        self._in_a_row = 0

    @property
    def all(self) -> bool:
        """Whether it is the cluster itself that does not answer."""
        return self._in_a_row >= MOST_AWAY

    def patience_s(self, node: str) -> float:
        """For how long a log of a pod there is asked for."""
        return 0.0 if node in self._nodes else LOG_PATIENCE_S

    def answered(self) -> None:
        """The cluster did."""
        self._in_a_row = 0

    def silent(self, node: str) -> None:
        """A node did not; an empty name is that of one nobody knows."""
        self._in_a_row += node not in self._nodes
        self._nodes |= {node} - {""}
