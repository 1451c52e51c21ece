"""Finds step times, losses and memory in the lines of a training job.

A format is data (formats.json): a list of rules, each for one kind of line. A rule is either a
regular expression whose named groups are quantities, or the members that identify a JSON line and
the places of its quantities.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re

# The quantities that a rule may name: (member of the result, factor). The unit is part of the name.
QUANTITIES = {
    "step": ("step", 1),
    "step_time_seconds": ("step_time_seconds", 1.0),
    "step_time_ms": ("step_time_seconds", 1e-3),
    "samples_per_second": ("samples_per_second", 1.0),  # a time once the global batch size is known
    "tokens_per_second_per_device": ("tokens_per_second_per_device", 1.0),  # a time once the whole JobSize is known
    "steps_per_second": ("steps_per_second", 1.0),
    "interval_seconds": ("interval_seconds", 1.0),  # of a whole number of steps; beside steps_per_second
    "loss": ("loss", 1.0),
    "nan_steps": ("nan_steps", 1),
    "peak_bytes": ("peak_bytes", 1),  # the most that the framework's allocator handed out
    "peak_mb": ("peak_bytes", 1e6),
    "peak_mib": ("peak_bytes", 2**20),
    "peak_gb": ("peak_bytes", 1e9),
    "peak_gib": ("peak_bytes", 2**30),
    "reserved_bytes": ("reserved_bytes", 1),  # the memory of the device that it reserved
    "reserved_mib": ("reserved_bytes", 2**20),
    "reserved_gib": ("reserved_bytes", 2**30),
}
_RATES = ("samples_per_second", "tokens_per_second_per_device", "steps_per_second", "interval_seconds")
_THOUSANDS = {"K": 1e3, "M": 1e6, "B": 1e9}  # suffixes of numbers
_PART = "part_ms_"  # groups with this prefix are summed to the step time
_PLAIN = ("is_warmup", "environment")  # only in JSON; taken unchanged
_WHOLE = ("step", "nan_steps", "peak_bytes", "reserved_bytes")


_NEEDED = {"json": "--field step_time_seconds=NAME (or step_time_ms)",
           "regex": "--pattern REGEX with (?P<step_time_seconds>...) (or step_time_ms)"}


@dataclasses.dataclass(frozen=True)
class JobSize:
    """The size of a step, which turns a rate into a time. None: unknown."""

    global_batch_size: int | None = None
    sequence_length: int | None = None
    device_count: int | None = None

    def seconds(self, rates):
        """Returns the time of a step by the rates in a line; None if they, or this, do not give one."""
        steps = rates.get("steps_per_second")
        if steps and steps > 0:
            interval = rates.get("interval_seconds")
            return interval / max(1, round(interval * steps)) if interval else 1 / steps
        samples = rates.get("samples_per_second")
        if samples and self.global_batch_size:
            return self.global_batch_size / samples
        tokens = rates.get("tokens_per_second_per_device")
        if tokens and self.knows_tokens():
            return self.global_batch_size * self.sequence_length / self.device_count / tokens
        return None

    def knows_tokens(self):
        return bool(self.global_batch_size and self.sequence_length and self.device_count)


class FormatError(ValueError):
    """The user's arguments do not describe a format."""


def names():
    return sorted([*_table(), "json", "regex"])


def named(name, fields=(), patterns=(), size=JobSize()):
    """Returns the format of that name. `fields` (QUANTITY=PATH) are for json, `patterns` for
    regex."""
    wrong = [f"{option} {text}: is only for --format {owner}" for option, owner, texts in (
        ("--field", "json", fields), ("--pattern", "regex", patterns)) if name != owner for text in texts]
    if name == "json":
        described = [{"json": {}, "fields": {quantity: path}} for quantity, path in map(_field, fields)]
    elif name == "regex":
        described = [{"pattern": pattern} for pattern in patterns]
    else:
        row = _table()[name]
        described = _table()[row["like"]]["rules"] if "like" in row else row["rules"]
    rules = []
    for rule in described:
        try:
            rules.append(_Rule(rule))
        except FormatError as error:
            wrong.append(str(error))
    if not wrong and not any(rule.gives_time(size) for rule in rules):
        needed = f"{_NEEDED[name]}, or samples_per_second with " if name in _NEEDED else ""
        wrong.append(f"--format {name} needs {needed}--global-batch-size" +
                     ("" if needed else ", --sequence-length and --device-count"))
    if wrong:
        raise FormatError("; ".join(wrong))
    if name == "json":  # one line holds all quantities
        rules = [_Rule({"json": {}, "fields": dict(map(_field, fields))})]
    return Format(rules, size)


def _table():
    with open(os.path.join(os.path.dirname(__file__), "formats.json"), encoding="utf-8") as file:
        return json.load(file)


def _field(text):
    name, equals, path = text.partition("=")
    if not equals or not path:
        raise FormatError(f"--field {text}: must be QUANTITY=NAME")
    return name, path


class Format:
    """Reads lines. All times come from the first rule that found one, so that no step counts
    twice."""

    def __init__(self, rules, size=JobSize()):
        self._rules = rules
        self._size = size
        self._timed_by = None

    def read(self, line):
        """Returns the quantities in the line: step, step_time_seconds, is_warmup, loss, nan_steps,
        peak_bytes, reserved_bytes, environment. Only those that are present are included, so most
        lines give {}."""
        for rule in self._rules:
            found = rule.read(line)
            if not found:
                continue
            rates = {name: found.pop(name) for name in _RATES if name in found}
            by_rate = self._size.seconds(rates)
            if by_rate is not None:
                found["step_time_seconds"] = by_rate
            seconds = found.get("step_time_seconds")
            if seconds is not None:
                self._timed_by = self._timed_by or rule
                if self._timed_by is not rule or not 0 < seconds < math.inf:
                    del found["step_time_seconds"]
            return found
        return {}


class _Rule:
    def __init__(self, rule):
        self._contains = rule.get("contains", "{" if "json" in rule else "")
        self._members = rule.get("json")
        self._members_if_there = rule.get("if_there", {})
        self._fields = rule.get("fields", {})
        self._pattern = None
        named_quantities = self._fields
        if self._members is None:
            try:
                self._pattern = re.compile(rule["pattern"])
            except re.error as error:
                raise FormatError(f"--pattern {rule['pattern']}: {error}") from None
            named_quantities = self._pattern.groupindex
            if not named_quantities:
                raise FormatError(f"--pattern {rule['pattern']}: has no named group, such as (?P<step_time_ms>...)")
        for name in named_quantities:
            if name not in QUANTITIES and name not in _PLAIN and not name.startswith(_PART):
                raise FormatError(f"{name} is not a quantity; known are {', '.join(QUANTITIES)}")

        self._quantities = set(named_quantities)

    def gives_time(self, size):
        return any(name in ("step_time_seconds", "step_time_ms", "steps_per_second") or name.startswith(_PART)
                   or (name == "samples_per_second" and size.global_batch_size)
                   or (name == "tokens_per_second_per_device" and size.knows_tokens()) for name in self._quantities)

    def read(self, line):
        if self._contains not in line:
            return {}
        raw = self._read_json(line) if self._pattern is None else self._read_text(line)
        found = {}
        for name, value in raw.items():
            if name in _PLAIN:
                found[name] = value
                continue
            target, factor = QUANTITIES.get(name, ("step_time_seconds", 1e-3))  # all others are parts of the step time
            value = _number(value)
            if value is None or (target in _WHOLE and not math.isfinite(value)):
                continue
            value = int(value * factor) if target in _WHOLE else value * factor
            found[target] = found.get(target, 0) + value if name.startswith(_PART) else value
        return found

    def _read_text(self, line):
        match = self._pattern.search(line)
        return {name: value for name, value in match.groupdict().items() if value is not None} if match else {}

    def _read_json(self, line):
        try:
            # A launcher may put a prefix before the document.
            document = json.JSONDecoder().raw_decode(line, line.index("{"))[0]
        except (ValueError, RecursionError):
            return {}
        if any(document.get(key) != value for key, value in self._members.items()):
            return {}
        if any(document.get(key, value) != value for key, value in self._members_if_there.items()):
            return {}
        found = {name: _member(document, path) for name, path in self._fields.items()}
        return {name: value for name, value in found.items() if value is not None}


def _member(document, path):
    """Returns the member at a dotted path; the whole document for an empty path."""
    for key in path.split(".") if path else []:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def _number(value):
    """Returns the value as a number, which may be NaN; the largest number of a list (one per
    device); None if it is not a number."""
    if isinstance(value, list):
        values = [number for number in map(_number, value) if number is not None]
        return max(values, default=None)
    if isinstance(value, bool):
        return None
    factor = 1.0
    if isinstance(value, str):
        value = value.replace(",", "")
        if value[-1:] in _THOUSANDS:
            value, factor = value[:-1], _THOUSANDS[value[-1]]
    try:
        return float(value) * factor
    except (TypeError, ValueError, OverflowError):
        return None
