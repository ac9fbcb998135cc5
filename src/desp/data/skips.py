"""What was left out of a dataset, and why: counts and first examples by reason."""

from dataclasses import dataclass, field

NAMED = 3


@dataclass
class Skips:
    """Counts of what cannot be used, by reason.

    Attributes:
        counts: how many, by reason.
        examples: the first few of each.
    """

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, example: str) -> None:
        """Count one more."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
        named = self.examples.setdefault(reason, [])
        if len(named) < NAMED:
            named.append(example)

    @property
    def total(self) -> int:
        """How many were left out."""
        return sum(self.counts.values())

    def lines(self) -> list[str]:
        """A line for each reason, the most frequent first: ``12 x reason: this one, that one, ...``"""
        ordered = sorted(self.counts, key=lambda reason: -self.counts[reason])
        return [f"{self.counts[reason]} x {reason}: {self._named(reason)}" for reason in ordered]

    def _named(self, reason: str) -> str:
        named = self.examples[reason]
        return ", ".join([*named, *(["..."] if self.counts[reason] > len(named) else [])])

    def summary(self) -> str:
        """All reasons in one sentence, for messages."""
        return "; ".join(self.lines()) or "nothing was found"

    def copy(self) -> "Skips":
        """An independent copy."""
        return Skips(dict(self.counts), {reason: list(named) for reason, named in self.examples.items()})
