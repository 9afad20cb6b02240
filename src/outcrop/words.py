"""Singular and plural of counted things in messages."""

import re

SINGULAR = {"are": "is", "have": "has", "were": "was", "lie": "lies", "follow": "follows"}


def counted(n: int, things: str, verb: str = "") -> str:
    """Return a number, a noun and a verb for a message; `things` and `verb` are given in the plural.

    Examples
    --------
    >>> counted(1, "exemplars"), counted(2, "exemplars"), counted(1, "labelled lines", "are")
    ('1 exemplar', '2 exemplars', '1 labelled line is')
    >>> counted(1, "patches"), counted(1, "bodies"), counted(1, "classes"), counted(1, "surfaces")
    ('1 patch', '1 body', '1 class', '1 surface')
    """
    if n == 1:
        things = re.sub(r"ies$", "y", things) if things.endswith("ies") else re.sub(r"(?<=ss|ch)es$|s$", "", things)
        verb = SINGULAR.get(verb, verb)
    return f"{n} {things} {verb}".rstrip()
