"""Masks secrets in everything that is stored: values of variables and arguments whose names look
like those of secrets, and texts that look like known tokens (masking.json). Quantities are read
before masking."""

from __future__ import annotations

import json
import os
import re

MASK = "[masked]"
# Shorter values (true, 8, </s>) are no secrets, and masking them would hide half of the log.
_SHORTEST = 6


class Masker:
    def __init__(self, environment, argv):
        with open(os.path.join(os.path.dirname(__file__), "masking.json"), encoding="utf-8") as file:
            table = json.load(file)
        self._last = set(table["names"]["last_word"])
        self._any = set(table["names"]["any_word"])
        self._shapes = [(shape["contains"], re.compile(shape["pattern"])) for shape in table["shapes"]]
        values = {value for name, value in environment.items() if self._is_secret(name)}
        values.update(value for name, value in _named_arguments(argv) if self._is_secret(name))
        # Output arrives line by line, so each line of a value (such as a private key) is a secret
        # too.
        values.update(line.strip() for value in tuple(values) for line in value.splitlines())
        # The longest come first, because one may contain another.
        self._values = sorted((value for value in values if len(value) >= _SHORTEST), key=len, reverse=True)

    def _is_secret(self, name):
        words = re.split(r"[_.-]+", name.strip("-").lower())
        return words[-1] in self._last or not self._any.isdisjoint(words)

    def mask(self, text):
        for value in self._values:
            text = text.replace(value, MASK)
        lowered = text.lower()
        for words, shape in self._shapes:
            if any(word in lowered for word in words):
                text = shape.sub(lambda match: (match.group(1) if match.re.groups else "") + MASK, text)
        return text

    def mask_all(self, document):
        """Masks every text in a JSON value, and the values of members whose names look like those
        of secrets."""
        if isinstance(document, dict):
            return {key: MASK if self._is_secret(key) and isinstance(value, str) else self.mask_all(value)
                    for key, value in document.items()}
        if isinstance(document, list):
            return [self.mask_all(value) for value in document]
        return self.mask(document) if isinstance(document, str) else document


def _named_arguments(argv):
    """Returns (name, value) for --name value, --name=value and NAME=value."""
    for i, argument in enumerate(argv):
        name, equals, value = argument.partition("=")
        if equals:
            yield name, value
        elif argument.startswith("-") and i + 1 < len(argv):
            yield argument, argv[i + 1]
