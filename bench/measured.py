"""Times processes and formats figures of several runs."""
import dataclasses
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time


def fail(words):
    print(f"scripts/bench_search.sh: {words}", file=sys.stderr)
    sys.exit(1)


@dataclasses.dataclass
class Run:
    """A run of one process, including its start."""
    code: int
    out: str
    seconds: float      # wall time
    cpu_seconds: float  # user and system time of all its threads and children
    peak_bytes: int     # resident memory; never below this program's own, which the kernel includes


def run(command, **options):
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, **options)
        status, usage = os.wait4(process.pid, 0)[1:]
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)  # set so that Popen does not wait again
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    done = Run(process.returncode, texts[0], seconds, usage.ru_utime + usage.ru_stime,
               usage.ru_maxrss * 1024)
    return done, texts[1]


def must_run(command, allowed=(0,), **options):
    done, errors = run(command, **options)
    if done.code not in allowed:
        fail(f"exit {done.code} of {' '.join(map(str, command))}: {errors.strip()[-500:]}")
    return done


def spread(figures):
    return {"median": statistics.median(figures), "least": min(figures), "most": max(figures),
            "count": len(figures)}


def digits(figure):
    """Formats three significant digits with marked thousands: 0.0823, 1.24, 48,100, 1,420,000."""
    if figure == 0:
        return "0"
    if abs(figure) >= 100:
        places = len(str(int(abs(figure)))) - 3
        return f"{round(figure, -places):,.0f}"
    return f"{figure:#.3g}"


def shown(figures):
    """Formats a spread: median (smallest to largest)."""
    return f"{digits(figures['median'])} ({digits(figures['least'])} to {digits(figures['most'])})"


def paragraph(words):
    return textwrap.fill(words, 100)


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)
