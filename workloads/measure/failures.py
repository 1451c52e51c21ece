"""Finds the reason why a command failed, by a table of rules (failures.json, and vendors' files in
the same form)."""

from __future__ import annotations

import json
import os
import re
import signal

# Every class that a result can have, with the exit code of the harness. A job that ends with 40 to
# 45 means the same.
EXIT_CODES = {
    "ok": 0,
    "oom_device": 40,
    "oom_host": 41,
    "invalid_config": 42,
    "numeric": 43,
    "hang": 44,
    "crash": 45,
    "timeout": 46,
    "start_timeout": 47,
    "node_failure": 48,
    "launch_error": 49,
    "metrics_missing": 50,
    "cancelled": 51,
}
_MEMBERS = {"name", "class", "patterns", "exit_codes", "signals", "oom_kill", "exception", "often_harmless", "source",
            "comment"}
_PREFIX = r"^(\[[\w.:]+\]:? ?)?"  # printed by torchrun
_FILE_LINE = re.compile(_PREFIX + r' +File ".*", line \d+')
_EXCEPTION = re.compile(_PREFIX + r"([A-Za-z_]\w*\.)*\w*(Error|Exception)\b")
# Exceptions that are consequences of a failure on another rank, or that torchrun raises for it.
_CONSEQUENCE = re.compile(r"ChildFailedError|DistBackendError|(?i:\b(nccl|rccl|hccl|cncl|mccl|flagcx|gloo)\b|"
                          r"connection (reset|closed|refused)|broken pipe|timed out|timeout)")
_TAIL_LINES = 30  # if no exception explains the end, a line that is often harmless counts only this close to the end
_CONDITIONS = ("patterns", "exit_codes", "signals", "oom_kill", "exception")


class RulesError(ValueError):
    """A file of rules is invalid."""


def load(vendor_files=()):
    """Returns (rules, words of notable lines). A vendor's rules come before ours; its words are
    added to ours."""
    own = os.path.join(os.path.dirname(__file__), "failures.json")
    rules, notable = [], []
    for path in (*vendor_files, own):
        try:
            with open(path, encoding="utf-8") as file:
                document = json.load(file)
        except (OSError, ValueError) as error:
            raise RulesError(f"{path}: {error}") from None
        if not isinstance(document, dict) or not isinstance(document.get("rules"), list):
            raise RulesError(f"{path}: must be an object with a list \"rules\"")
        rules += [_checked(rule, f"{path}: rules[{i}]") for i, rule in enumerate(document["rules"])]
        if not _is_list_of(document.get("notable", []), str):
            raise RulesError(f"{path}: notable must be a list of texts")
        notable += document.get("notable", [])
    return rules, notable


def _checked(rule, where):
    if not isinstance(rule, dict):
        raise RulesError(f"{where}: must be an object")
    where = f"{where} ({rule.get('name', 'no name')})"
    unknown = sorted(set(rule) - _MEMBERS)
    if unknown:
        raise RulesError(f"{where}: unknown member {unknown[0]}; known are {', '.join(sorted(_MEMBERS))}")
    if not isinstance(rule.get("name"), str):
        raise RulesError(f"{where}: name must be a text")
    if rule.get("class") not in EXIT_CODES or rule["class"] == "ok":
        raise RulesError(f"{where}: class = {rule.get('class')}; must be one of "
                         f"{', '.join(name for name in EXIT_CODES if name != 'ok')}")
    if not any(rule.get(condition) for condition in _CONDITIONS):
        raise RulesError(f"{where}: needs one of {', '.join(_CONDITIONS)}")
    for condition, kind in (("patterns", str), ("exit_codes", int), ("signals", int)):
        if not _is_list_of(rule.get(condition, []), kind):
            raise RulesError(f"{where}: {condition} must be a list of {'texts' if kind is str else 'numbers'}")
    compiled = dict(rule)
    try:
        compiled["patterns"] = [re.compile(pattern) for pattern in rule.get("patterns", [])]
    except re.error as error:
        raise RulesError(f"{where}: {error.pattern}: {error}") from None
    return compiled


def _is_list_of(values, kind):
    return isinstance(values, list) and all(isinstance(value, kind) for value in values)


def classify(rules, ended, lines, oom_kills):
    """Returns (class, matched, message). `ended` is the keeper's report and `lines` holds (number,
    text). `oom_kills` is how often the cgroup killed for lack of memory meanwhile. `matched` is
    {"rule", "line", "line_number"}."""
    how = describe_end(ended)
    lines = _without_source(lines)
    for rule in rules:
        line = _match(rule, ended, lines, oom_kills)
        if line is not None:
            number, text = line
            matched = {"rule": rule["name"], "line": text, "line_number": number}
            message = f"{how}; {rule['name']}"
            return rule["class"], matched, f"{message}, line {number}: {text[:300]}" if number else message
    return "crash", {"rule": "none", "line": None, "line_number": None}, f"{how}; no rule knows why"


def _without_source(lines):
    """Drops the source text that a traceback shows after each File line, because what it says did
    not happen."""
    kept, after_file = [], False
    for number, text in lines:
        if not after_file:
            kept.append((number, text))
        after_file = _FILE_LINE.search(text) is not None
    return kept


def _match(rule, ended, lines, oom_kills):
    """Returns the line that decided as (number, text), (None, None) if the rule needs no line, or
    None if the rule does not apply."""
    if rule.get("exit_codes") and ended["exit_code"] not in rule["exit_codes"]:
        return None
    if rule.get("signals") and ended["signal"] not in rule["signals"]:
        return None
    if rule.get("oom_kill") and not oom_kills:
        return None
    if rule.get("exception"):
        return _last_exception(lines)
    if not rule["patterns"]:
        return None, None
    return next(((number, text) for number, text in (_telling(lines) if rule.get("often_harmless") else lines)
                 if any(pattern.search(text) for pattern in rule["patterns"])), None)


def _last_exception(lines):
    """Returns the last exception of the program itself or, if it has none, the last that another
    failure caused. Returns None if there is no exception."""
    found = [line for line in lines if _EXCEPTION.search(line[1])]
    own = [line for line in found if not _CONSEQUENCE.search(line[1])]
    return (own or found or [None])[-1]


def _telling(lines):
    """Returns the lines among which an often harmless line counts: the exception that ended the
    program or, if the program raised none itself, the lines near the end."""
    last = _last_exception(lines)
    if last is not None and not _CONSEQUENCE.search(last[1]):
        return [last]
    return lines[-_TAIL_LINES:]


def describe_end(ended):
    if ended["error"]:
        return ended["error"]
    if ended["signal"] is not None:
        try:
            return f"the command was ended by {signal.Signals(ended['signal']).name}"
        except ValueError:
            return f"the command was ended by signal {ended['signal']}"
    if ended["exit_code"] is None:
        return "the command could not be ended"
    return f"the command gave exit code {ended['exit_code']}"

