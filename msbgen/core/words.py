"""Numbers of things in sentences."""


def number_of(n: float, thing: str) -> str:
    """A number of things, in the singular or plural.

    Examples
    --------
    >>> number_of(1, "context"), number_of(0, "run"), number_of(2.5, "way")
    ('1 context', '0 runs', '2.5 ways')
    """
    shown = f"{n:g}" if isinstance(n, float) else str(n)
    return f"{shown} {thing}" if n == 1 else f"{shown} {thing}s"
