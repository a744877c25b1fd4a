"""How the package fails: one type for each of those who can mend it.

Every message is one sentence: name, what was got, what is wanted; "X is Y; Z is wanted."
"""

from __future__ import annotations


class ArgumentError(ValueError):
    """An argument of a public function is wrong: whoever wrote the call can mend it."""


class MeasurementError(ValueError):
    """Measurements, though well formed, do not support what is asked of them."""


class ProfileError(ValueError):
    """A file or data that break the contract; the message names the place and the remedy.

    Attributes
    ----------
    problems : tuple of str
        Every problem found, one sentence each.
    """

    def __init__(self, *problems: str):
        self.problems = problems
        super().__init__("\n".join(problems))
