#!/usr/bin/env python3
"""Gives a study of a store as many events as asked, by repeating one that tells of its progress.

    bench/many_events.py STORE STUDY COUNT

The store is a SQLite file that no program has open, and the study has told of its progress at least
once. The study itself stays as it is. For tests and measurements only.
"""

import sqlite3
import sys


def main(arguments):
    if len(arguments) != 3 or not arguments[2].isdigit():
        sys.exit(__doc__.split("\n\n")[1].strip())
    store, study, count = arguments[0], arguments[1], int(arguments[2])
    with sqlite3.connect(f"file:{store}?mode=rw", uri=True) as connection:
        repeated = connection.execute(
            "SELECT time_ms, payload FROM events WHERE study_id = ? AND kind = 'progress' "
            "ORDER BY revision DESC LIMIT 1", (study,)).fetchone()
        if repeated is None:
            sys.exit(f"study {study} in {store} has no event of its progress to repeat")
        last = connection.execute("SELECT MAX(revision) FROM events WHERE study_id = ?", (study,)).fetchone()[0]
        time, payload = repeated
        connection.executemany(
            "INSERT INTO events (study_id, revision, time_ms, kind, payload) VALUES (?, ?, ?, 'progress', ?)",
            ((study, revision, time, payload) for revision in range(last + 1, count + 1)))
    print(f"study {study} has {max(last, count)} events")


if __name__ == "__main__":
    main(sys.argv[1:])
