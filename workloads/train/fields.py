"""Reads one JSON object by a table of its fields, and reports every field that is wrong.

A table has a row for each field: name -> (check, default). A check takes the value and returns what
is wrong with it, or None. A field with the default REQUIRED must be stated.
"""

REQUIRED = object()


class InvalidCase(Exception):
    """The case has wrong fields. `wrong`: [(field, what is wrong)]."""

    def __init__(self, wrong):
        super().__init__("; ".join(f"{field}: {what}" for field, what in wrong))
        self.wrong = wrong


def whole(low=1, high=2**31):
    def check(value):
        if isinstance(value, bool) or not isinstance(value, int):
            return f"is {value!r}; must be a whole number"
        return None if low <= value <= high else f"is {value}; must be {low} to {high}"
    return check


def word(*allowed, others=()):
    """Returns a check for one of the words `allowed`. `others` are words of the contract that this
    step cannot run."""
    def check(value):
        if value in allowed:
            return None
        why = "the reference step cannot run it" if value in others else "no such word"
        return f"is {value!r}; {why}; it takes {', '.join(allowed)}"
    return check


def only(*values):
    """Returns a check for a field of the contract with the only values that this step can run."""
    def check(value):
        if any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in values):
            return None
        return f"is {value!r}; the reference step only runs {' or '.join(repr(one) for one in values)}"
    return check


def truth(value):
    return None if isinstance(value, bool) else f"is {value!r}; must be true or false"


def text(value):
    return None if isinstance(value, str) else f"is {value!r}; must be text"


def anything(_):
    return None


def ratio(value):
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return None if is_number and 0 <= value <= 1 else f"is {value!r}; must be 0 to 1"


def positive(value):
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return None if is_number and 0 < value < float("inf") else f"is {value!r}; must be above 0"


def counts(value):
    if isinstance(value, list) and all(whole(0)(one) is None for one in value):
        return None
    return f"is {value!r}; must be a list of counts"


def read_fields(document, table, path, wrong):
    """Returns the fields with defaults filled in. Mistakes are added to `wrong`, and such fields
    take their defaults."""
    if not isinstance(document, dict):
        wrong.append((path, "must be a JSON object"))
        document = {}
    for name in document:
        if name not in table:
            wrong.append((f"{path}.{name}", f"no such field; there are {', '.join(table)}"))
    read = {}
    for name, (check, default) in table.items():
        if document.get(name) is None:  # null means that the field is not stated, as in protobuf's JSON
            if default is REQUIRED:
                wrong.append((f"{path}.{name}", "is missing"))
            read[name] = 1 if default is REQUIRED else default
            continue
        value = document[name]
        problem = check(value)
        if problem and isinstance(value, str) and value.isdigit():
            value = int(value)  # the contract's printers write 64-bit integers as text
            problem = check(value)
        if problem:
            wrong.append((f"{path}.{name}", problem))
            value = 1 if default is REQUIRED else default
        read[name] = value
    return read
