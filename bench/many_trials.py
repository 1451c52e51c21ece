#!/usr/bin/env python3
"""Gives a study of a store as many ended trials as asked, by repeating those that it has.

    bench/many_trials.py STORE STUDY COUNT

The store is a SQLite file that no program has open, and the study has run at least one plan. Every
repeated trial has a digest, a time and an end of its own: no two are equally fast, and one of a hundred
ran out of memory. Measurements, attempts and the study's answer stay as they are. For tests and
measurements only.
"""

import sqlite3
import sys

COLUMNS = ("study_id, number, purpose, plan_key, plan_digest, plan, expected_step_time_seconds, "
           "success_probability_ratio, state, outcome, step_time_seconds, peak_memory_bytes, "
           "device_seconds, start_time_ms, end_time_ms")
PRIME = 7919  # so that the times are not in the order of the numbers


def rows(study, kept, have, count):
    for number in range(have + 1, count + 1):
        key, plan, expected, start = kept[number % len(kept)]
        place = number * PRIME % count / count
        is_out = number % 100 == 0
        yield (study, number, "search", key, f"{number:016d}", plan, expected, 0.9, "ended",
               "oom" if is_out else "ok", None if is_out else expected * (1 + place),
               None if is_out else int(2e10 + 4e10 * place), 100.0, start + number, start + number + 1)


def main(arguments):
    if len(arguments) != 3 or not arguments[2].isdigit():
        sys.exit(__doc__.split("\n\n")[1].strip())
    store, study, count = arguments[0], arguments[1], int(arguments[2])
    with sqlite3.connect(f"file:{store}?mode=rw", uri=True) as connection:
        kept = connection.execute(
            "SELECT plan_key, plan, expected_step_time_seconds, start_time_ms FROM trials "
            "WHERE study_id = ? AND state = 'ended' ORDER BY number", (study,)).fetchall()
        if not kept:
            sys.exit(f"study {study} in {store} has no ended trial to repeat")
        have = connection.execute("SELECT MAX(number) FROM trials WHERE study_id = ?", (study,)).fetchone()[0]
        marks = ", ".join("?" * len(COLUMNS.split(",")))
        connection.executemany(f"INSERT INTO trials ({COLUMNS}) VALUES ({marks})",
                               rows(study, kept, have, count))
    print(f"study {study} has {max(have, count)} trials")


if __name__ == "__main__":
    main(sys.argv[1:])
