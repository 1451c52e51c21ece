"""Handles the command's output: cuts it into lines, masks it, writes it to a file as it comes, and
keeps parts for the result."""

from __future__ import annotations

import re
from collections import deque

KEPT_BYTES = 64 * 1024  # for each of the head, the tail, and the notable lines between them
LINE_BYTES = 16 * 1024  # longer lines are cut
FILE_BYTES = 256 * 2**20  # the file's largest size
_OVERHANG = 4 * 1024  # bytes read beyond the cut, so that a secret across it is still recognised
_CUT = "... [cut]"


class Lines:
    """Cuts a stream of bytes into lines. What exceeds LINE_BYTES of a line is dropped as it comes.
    A carriage return also ends a line (progress bars)."""

    def __init__(self):
        self._begun = bytearray()
        self._dropping = False

    def feed(self, piece):
        """Returns the lines that are now complete, without their ends."""
        lines = []
        *whole, rest = re.split(rb"\r?\n|\r", piece)
        for part in whole:
            self._add(part)
            lines.append(self._take())
        self._add(rest)
        return lines

    def finish(self):
        """Returns the last line, if it had no end."""
        return [self._take()] if self._begun else []

    def _add(self, part):
        room = LINE_BYTES + _OVERHANG - len(self._begun)
        self._begun += part[:room]
        self._dropping = self._dropping or len(part) > room

    def _take(self):
        line, was_cut = bytes(self._begun), self._dropping
        self._begun.clear()
        self._dropping = False
        return line, was_cut


class Output:
    """Keeps the output. Bytes that are not UTF-8 are unchanged in the file and shown as \\xNN in
    the result."""

    def __init__(self, file, masker, notable):
        """Lines with one of the words in `notable` are also kept from the middle of a long log."""
        self._file = file
        self._masker = masker
        self._notable = notable
        self._lines = Lines()
        self._number = 0
        self._head, self._middle, self._tail = [], [], deque()
        self._sizes = {"head": 0, "middle": 0, "tail": 0}
        self._written = 0
        self.trouble = None  # the reason why the file is incomplete

    def feed(self, piece):
        """Returns the new lines as unmasked text, from which quantities are read."""
        return [self._keep(line, was_cut) for line, was_cut in self._lines.feed(piece)]

    def finish(self):
        lines = [self._keep(line, was_cut) for line, was_cut in self._lines.finish()]
        try:
            self._file.close()
        except OSError as error:  # data that could not be written is tried again later
            self.trouble = self.trouble or f"the output file is not whole: {error.strerror}"
        return lines

    def _keep(self, raw, was_cut):
        text = raw.decode("utf-8", "surrogateescape")
        masked = self._masker.mask(text)
        if was_cut or len(masked) > LINE_BYTES:
            masked = masked[:LINE_BYTES] + _CUT
        self._write(masked)
        self._number += 1
        self._sort_in(self._number, masked)
        return text

    def _write(self, masked):
        data = masked.encode("utf-8", "surrogateescape") + b"\n"
        if self.trouble is None and self._written + len(data) > FILE_BYTES:
            self.trouble = f"the output file ends at its limit of {FILE_BYTES} bytes"
            data = f"[{self.trouble}]\n".encode()
        elif self.trouble is not None:
            return
        try:
            self._file.write(data)
            self._file.flush()
            self._written += len(data)
        except OSError as error:  # a full disk does not end a measurement
            self.trouble = f"the output file is not whole: {error.strerror}"

    def _sort_in(self, number, line):
        size = len(line) + 1
        if self._tail or self._sizes["head"] + size > KEPT_BYTES:
            self._tail.append((number, line))
            self._sizes["tail"] += size
        else:
            self._head.append((number, line))
            self._sizes["head"] += size
        while self._sizes["tail"] > KEPT_BYTES:
            old = self._tail.popleft()
            self._sizes["tail"] -= len(old[1]) + 1
            if self._sizes["middle"] + len(old[1]) < KEPT_BYTES and self._is_notable(old[1]):
                self._middle.append(old)
                self._sizes["middle"] += len(old[1]) + 1

    def _is_notable(self, line):
        lowered = line.lower()
        return any(word in lowered for word in self._notable)

    def kept(self):
        """Returns (number, line) for all that is kept, in order."""
        return [(number, readable(line)) for number, line in (*self._head, *self._middle, *self._tail)]

    @property
    def head(self):
        return readable("".join(line + "\n" for _, line in self._head))

    @property
    def tail(self):
        """Returns the last lines, without those that the head already has."""
        return readable("".join(line + "\n" for _, line in self._tail))


def readable(text):
    """Returns text that any JSON reader accepts: bytes that are not UTF-8 become \\xNN."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
