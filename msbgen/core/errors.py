"""The errors of the package: one type for each kind of cause.

Every message is one sentence with the name, the value and what is wanted: "X is Y; Z is wanted."
What comes from outside is escaped and cut, so that a message is one line of limited length.
"""

# Most characters of a message, and of a value that it quotes.
MESSAGE, _QUOTED = 1000, 62


def printable(text: object, most: int = 10**9, keep: str = "") -> str:
    """Text in which characters that control a terminal, or the direction of writing, are escapes.

    Beyond `most` characters its middle is left out, as the end of a message is its remedy.  Spaces
    of all widths and the characters in `keep` stay.

    Examples
    --------
    >>> printable("a\\x1b[2J"), printable("from left to right", 12)
    ('a\\\\x1b[2J', 'from  ... ht')
    """
    line = str(text)
    if len(line) > most:
        line = f"{line[: (most - 5) * 2 // 3 + 1]} ... {line[len(line) - (most - 5) // 3 :]}"
    if line.isprintable():
        return line
    from unicodedata import category  # rarely needed

    return "".join(
        c
        if c.isprintable() or c in keep or category(c) == "Zs"
        else c.encode("unicode_escape").decode()
        for c in line
    )


def quoted(value: object, most: int = _QUOTED) -> str:
    """A value from outside for a message: in quotes, escaped and cut."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # more digits than Python writes, or lists in lists
        text = f"<{type(value).__name__}>"
    return printable(text if len(text) <= most else f"{text[: most - 5]} ...{text[-1]}")


class ArgumentError(ValueError):
    """An argument of a public function is wrong; the call must be corrected."""

    def __init__(self, message: object = ""):
        super().__init__(printable(message, MESSAGE))


class MeasurementError(ValueError):
    """Measurements are well formed but do not support the computation."""

    def __init__(self, message: object = ""):
        super().__init__(printable(message, MESSAGE))


class ProfileError(ValueError):
    """Invalid file or data; `problems` has one sentence each, with place and remedy."""

    def __init__(self, *problems: str):
        self.problems = tuple(printable(problem, MESSAGE) for problem in problems)
        super().__init__(*self.problems)

    def __str__(self) -> str:
        return "\n".join(self.problems)


def is_number(value: object) -> bool:
    """Whether a value is one real number, of Python or numpy; True and False are none."""
    from numbers import Real  # not at the start of every command

    return isinstance(value, Real) and not isinstance(value, bool)
