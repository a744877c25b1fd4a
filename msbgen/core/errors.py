"""The errors of the package: one type for each kind of cause.

Every message is one sentence with the name, the value and what is wanted: "X is Y; Z is wanted."
"""


class ArgumentError(ValueError):
    """An argument of a public function is wrong; the call must be corrected."""


class MeasurementError(ValueError):
    """Measurements are well formed but do not support the computation."""


class ProfileError(ValueError):
    """Invalid file or data; `problems` has one sentence each, with place and remedy."""

    def __init__(self, *problems: str):
        self.problems = problems
        super().__init__("\n".join(problems))


def check_positive(owner: object, *names: str) -> None:
    """Raise :class:`ArgumentError` where an attribute is no positive finite number."""
    for name in names:
        value = getattr(owner, name)
        if not 0 < value < float("inf"):
            raise ArgumentError(f"{name} is {value}; a positive number is wanted.")


def check_whole(owner: object, *names: str, least: int = 1) -> None:
    """Raise :class:`ArgumentError` where an attribute is no whole number from `least` on."""
    for name in names:
        value = getattr(owner, name)
        if value != value // 1 or value < least:
            raise ArgumentError(f"{name} is {value}; a whole number ≥ {least} is wanted.")
