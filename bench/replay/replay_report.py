"""Reports how many trials a search needs on measured tables; called by scripts/replay.sh, which has
the usage."""
import argparse
import collections
import hashlib
import importlib.util
import json
import math
import pathlib
import statistics
import subprocess
import sys

import competitors
import simulated
from replay_plot import STAMP, plot

FOLDER = pathlib.Path("docs/replay")
MEASURED, SIMULATED = (FOLDER / "measured.md", "replay"), (FOLDER / "simulated.md", "simulated")
OURS, MODEL, RANDOM = "Meshwright", "its model's order", "random"
GRID, PROCESS = "grid with history rules", "Gaussian process, no prior"
STRATEGIES = (OURS, MODEL, RANDOM, GRID, PROCESS)
SEEDS = 20  # for strategies that draw at random
LEAST_PLANS, LEAST_RAN = 8, 4  # required of a group, as in the exam
NOISY = "nanotron"  # repeats of one layout differ by 16 %; elsewhere by 1 to 4 %
CURVE = 32  # trials that are plotted


def load_exam(path):
    sys.path.insert(0, str(pathlib.Path(path).parent))
    spec = importlib.util.spec_from_file_location("replay", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Group:
    """Alternative plans for one job, with the outcome of each."""

    def __init__(self, name, items, exam):
        self.name, self.source, self.case = name, items[0]["source"], items[0]["case"]
        self.rows = exam.merged(items)
        self.times = [row["step_time_seconds"] for row in self.rows if competitors.ran(row)]

    def is_large_enough(self):
        return len(self.rows) >= LEAST_PLANS and len(self.times) >= LEAST_RAN

    def is_good(self, row):
        return competitors.ran(row) and float(row["step_time_seconds"]) <= self.limit()

    def limit(self):
        return min(self.times) * (1.16 if self.source == NOISY else 1.03)

    def half(self):
        return int(hashlib.md5(self.name.encode()).hexdigest(), 16) % 2


class Trace:
    """One order of trials: the number until the result is good, the failures on the way, and the
    regret after each trial."""

    def __init__(self, group, order):
        self.trials, self.failed, self.regrets = None, 0, []
        best = math.inf
        for row in order:
            if competitors.ran(row):
                best = min(best, float(row["step_time_seconds"]))
            if self.trials is None:
                self.failed += not competitors.ran(row)
                if group.is_good(row):
                    self.trials = len(self.regrets) + 1
            self.regrets.append(min(1.0, best / min(group.times) - 1))
            if self.trials is not None and len(self.regrets) >= CURVE:
                return

    def regret_after(self, trials):
        return self.regrets[min(trials, len(self.regrets)) - 1]


def by_estimate(group, binary):
    """Returns the rows in the order in which the model alone would try them."""
    cases = "".join(json.dumps({**group.case, "id": str(i), "plan": row["plan"]}) + "\n"
                    for i, row in enumerate(group.rows))
    done = subprocess.run([binary, "evaluate", "--cases", "-"], input=cases, capture_output=True, text=True, check=True)
    estimates = [json.loads(text) for text in done.stdout.splitlines()]
    order = sorted(range(len(estimates)), key=lambda i: (not estimates[i]["fits"], estimates[i]["step_time_seconds"]))
    return [group.rows[i] for i in order]


def traces_of(group, exam, binary):
    tried = exam.replay(binary, group.case, group.rows)
    if isinstance(tried, str):
        sys.exit(f"scripts/replay.sh: {group.name}: {tried}")
    drawn = range(SEEDS)
    return {OURS: [Trace(group, tried)],
            MODEL: [Trace(group, by_estimate(group, binary))],
            RANDOM: [Trace(group, competitors.random_order(group.rows, seed)) for seed in drawn],
            GRID: [Trace(group, competitors.grid(group.rows))],
            PROCESS: [Trace(group, competitors.gaussian_process(group.rows, seed)) for seed in drawn]}


def random_expectation(group):
    """Returns the exact expected numbers of trials, and of failures among them, in a random
    order."""
    good = sum(group.is_good(row) for row in group.rows)
    return (len(group.rows) + 1) / (good + 1), (len(group.rows) - len(group.times)) / (good + 1)


def needs(found, strategy):
    """Returns one (trials, failures) per group, as means over the draws."""
    out = []
    for group, traces in found:
        if strategy == RANDOM:
            out.append(random_expectation(group))
            continue
        of = traces[strategy]
        out.append((statistics.mean(t.trials for t in of), statistics.mean(t.failed for t in of)))
    return out


def cell(found, strategy):
    trials, failed = zip(*needs(found, strategy))
    return f"{statistics.median(trials):.3g} / {statistics.mean(trials):.2f} / {statistics.mean(failed):.2f}"


def line(words, found):
    return f"| {words} | {len(found)} | " + " | ".join(
        cell(found, strategy) for strategy in STRATEGIES) + " |"


def table(found):
    calm = [pair for pair in found if pair[0].source != NOISY]
    sources = collections.defaultdict(list)
    for pair in found:
        sources[pair[0].source].append(pair)
    out = ["| runs | groups | " + " | ".join(STRATEGIES) + " |", "|---" * (2 + len(STRATEGIES)) + "|",
           *(line(source, pairs) for source, pairs in sorted(sources.items()))]
    if calm:
        out.append(line(f"all but {NOISY}", calm))
        for half, words in enumerate(("of these, the half that settings were tried on", "of these, the other half")):
            pairs = [pair for pair in calm if pair[0].half() == half]
            if pairs:
                out.append(line(words, pairs))
    return out


def curve(found, strategy):
    """Returns the mean regret over the groups after 1, 2, ... trials."""
    return [statistics.mean(statistics.mean(trace.regret_after(k) for trace in traces[strategy])
                            for _, traces in found) for k in range(1, CURVE + 1)]


def hardest(found, count=10):
    rows = [(pair[1][OURS][0].trials, pair[1][OURS][0].failed, pair[0]) for pair in found]
    rows.sort(key=lambda row: (-row[0], row[2].name))
    return ["| group | plans | failed of them | trials | failed | random |", "|---|---|---|---|---|---|",
            *(f"| {group.name} | {len(group.rows)} | {len(group.rows) - len(group.times)} | {trials} | {failed} | "
              f"{random_expectation(group)[0]:.1f} |" for trials, failed, group in rows[:count])]


def stopped(found, binary):
    """Returns the regret that remains after a study that ends by itself."""
    out = ["| runs | groups | trials, median / mean | regret, mean / worst |", "|---|---|---|---|"]
    for words, is_noisy in ((f"all but {NOISY}", False), (NOISY, True)):
        trials, regrets = [], []
        for group, _ in found:
            if (group.source == NOISY) != is_noisy:
                continue
            tried = simulated.ask(binary, group.case, group.rows, "--stop-within", "0.02",
                                  limit=len(group.rows))
            trials.append(len(tried))
            best = min(trial["step_time_seconds"] for trial in tried if competitors.ran(trial))
            regrets.append(best / min(group.times) - 1)
        if trials:
            out.append(f"| {words} | {len(trials)} | {statistics.median(trials):.3g} / {statistics.mean(trials):.2f} | "
                       f"{100 * statistics.mean(regrets):.1f} % / {100 * max(regrets):.1f} % |")
    return out


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/replay.sh")
    parser.add_argument("--exam", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--only", nargs="+", help="sources; prints their table, writes nothing")
    parser.add_argument("--simulated", action="store_true", help="FlagScale's problems instead")
    return parser.parse_args()


def write(lines, page, name):
    """Writes lines between the markers of a page."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = page.read_text().split(begin)
    _, after = rest.split(end)
    page.write_text("\n".join([before + begin, STAMP, "", *lines, end + after]))


def load_groups(exam_path, data, only):
    exam = load_exam(exam_path)
    items = collections.defaultdict(list)
    for item in exam.score.load(data, only):
        if item["case"]:
            items[item["group"]].append(item)
    groups = [Group(str(name), of, exam) for name, of in sorted(items.items())]
    large = [group for group in groups if group.is_large_enough()]
    return large or sys.exit("no group is large enough")


def main():
    asked = arguments()
    if asked.simulated:
        lines = simulated.report(asked.bin)
        print("\n".join(lines))
        write(lines, *SIMULATED)
        return
    groups = load_groups(asked.exam, asked.data, asked.only)
    exam = load_exam(asked.exam)
    found = [(group, traces_of(group, exam, asked.bin)) for group in groups]
    lines = [*table(found), "", "Ended by `--stop-within 0.02`:", "", *stopped(found, asked.bin), "", "Groups that take most trials:", "", *hardest(found)]
    print("\n".join(lines))
    if asked.only:
        return
    write(lines, *MEASURED)
    calm = [pair for pair in found if pair[0].source != NOISY]
    for name, pairs in (("measured", calm), (NOISY, [pair for pair in found if pair not in calm])):
        curves = {strategy: curve(pairs, strategy) for strategy in STRATEGIES}
        title = f"{len(pairs)} groups of " + (NOISY if name == NOISY else f"all sources but {NOISY}")
        (FOLDER / f"{name}.svg").write_text(plot(title, curves))


if __name__ == "__main__":
    main()
