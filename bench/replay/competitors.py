"""The orders in which other tuners would try the plans of a measured table. Each yields rows in the
order tried.

A row is what replay.py of the exam makes of a plan: {"plan", "outcome", "step_time_seconds"}.
"""
import math
import random

RECOMPUTED = {"none": 0.0, "selective": 0.5, "full": 1.0}


def ran(row):
    return row["outcome"] == "ok"


def recomputed(plan):
    return RECOMPUTED[plan["recompute"]["granularity"]]


def random_order(rows, seed):
    order = list(rows)
    random.Random(seed).shuffle(order)
    yield from order


# --- The grid of FlagScale's tuner, with its history rules (docs/replay/measured.md says which).

# The dimensions, besides tensor x pipeline, in which a plan that was run and one that it prunes may
# differ.
FREE = ("micro_batch_size", "sequence_parallel", "zero_stage")


def rest(plan):
    """Returns everything that must be equal for a rule to compare two plans."""
    return {key: value for key, value in plan.items()
            if key not in (*FREE, "recompute", "tensor_parallel", "pipeline_parallel")}


def shape(plan):
    return plan["tensor_parallel"], plan["pipeline_parallel"]


def needs_as_much_memory(plan, other):
    """Combines rules 1 to 31 on memory: `plan` is in no dimension below `other`."""
    same_product = math.prod(shape(plan)) == math.prod(shape(other))
    return (rest(plan) == rest(other) and same_product and plan["tensor_parallel"] <= other["tensor_parallel"] and
            plan["micro_batch_size"] >= other["micro_batch_size"] and recomputed(plan) <= recomputed(other) and
            plan.get("sequence_parallel", False) <= other.get("sequence_parallel", False) and
            plan["zero_stage"] <= other["zero_stage"])


def cannot_be_faster(plan, other):
    """Combines rules 1 to 3 on speed: one dimension differs, and `other`, which ran, has its better
    value."""
    if rest(plan) != rest(other) or shape(plan) != shape(other) or plan["zero_stage"] != other["zero_stage"]:
        return False
    worse = (plan["micro_batch_size"] < other["micro_batch_size"],
             recomputed(plan) > recomputed(other) and recomputed(other) == 0,
             plan.get("sequence_parallel", False) < other.get("sequence_parallel", False))
    differ = (plan["micro_batch_size"] != other["micro_batch_size"], recomputed(plan) != recomputed(other),
              plan.get("sequence_parallel", False) != other.get("sequence_parallel", False))
    return sum(differ) == 1 and any(worse)


def is_pruned(plan, tried):
    return any(cannot_be_faster(plan, row["plan"]) if ran(row) else
               row["outcome"] == "oom" and needs_as_much_memory(plan, row["plan"]) for row in tried)


def grid(rows):
    """Yields the largest micro-batch first, then follows FlagScale's nesting. Plans that history
    prunes come last."""
    def place(row):
        plan = row["plan"]
        return (-plan["micro_batch_size"], plan["data_parallel"], *shape(plan), plan.get("context_parallel", 1),
                plan.get("expert_parallel", 1), recomputed(plan), plan.get("sequence_parallel", False))
    tried, pruned = [], []
    for row in sorted(rows, key=place):
        if is_pruned(row["plan"], tried):
            pruned.append(row)
            continue
        tried.append(row)
        yield row
    yield from pruned


# --- A Gaussian process that starts without data: expected improvement of the logarithm of the step
# time.

LENGTH, NOISE = 1.5, 0.1  # in base-2 logarithms of features; in standardised times


def features(plan):
    sizes = ("micro_batch_size", "tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel",
             "data_parallel", "virtual_pipeline")
    return [*(math.log2(plan.get(name) or 1) for name in sizes), recomputed(plan),
            float(plan.get("sequence_parallel", False))]


def improvement(best, mean, variance):
    sigma = math.sqrt(max(variance, 1e-12))
    z = (best - mean) / sigma
    return sigma * (z * 0.5 * math.erfc(-z / math.sqrt(2)) + math.exp(-z * z / 2) / math.sqrt(2 * math.pi))


class Process:
    """A Gaussian process with zero mean and unit variance. It stores the rows of the Cholesky
    factor over all points, one per observation."""

    def __init__(self, points):
        self.points = points
        self.observed, self.factor = [], []
        self.variances = [1.0] * len(points)

    def covariance(self, a, b):
        return math.exp(-sum((x - y)**2 for x, y in zip(self.points[a], self.points[b])) / (2 * LENGTH**2))

    def observe(self, at):
        pivot = math.sqrt(self.variances[at] + NOISE**2)
        row = [(self.covariance(at, i) - sum(w[at] * w[i] for w in self.factor)) / pivot
               for i in range(len(self.points))]
        self.variances = [max(0.0, v - w * w) for v, w in zip(self.variances, row)]
        self.observed.append((at, pivot))
        self.factor.append(row)

    def solve(self, values):
        """Returns the weights of the factor's rows for the observed values, in the order
        observed."""
        solved = []
        for (at, pivot), value in zip(self.observed, values):
            solved.append((value - sum(w[at] * z for w, z in zip(self.factor, solved))) / pivot)
        return solved

    def mean(self, i, solved):
        return sum(w[i] * z for w, z in zip(self.factor, solved))


def standardised(outcomes):
    """Returns the standardised logarithms of measured times. A failure counts as the slowest run so
    far."""
    times = [math.log(time) for time in outcomes if time is not None]
    if not times:
        return [0.0] * len(outcomes)
    filled = [max(times) if time is None else math.log(time) for time in outcomes]
    mean = sum(filled) / len(filled)
    deviation = math.sqrt(sum((x - mean)**2 for x in filled) / len(filled)) or 1.0
    return [(x - mean) / deviation for x in filled]


def gaussian_process(rows, seed):
    """Yields rows, starting from a plan drawn at random."""
    process = Process([features(row["plan"]) for row in rows])
    left = list(range(len(rows)))
    at = random.Random(seed).choice(left)
    outcomes = []
    while True:
        left.remove(at)
        yield rows[at]
        if not left:
            return
        outcomes.append(rows[at]["step_time_seconds"] if ran(rows[at]) else None)
        process.observe(at)
        values = standardised(outcomes)
        solved, best = process.solve(values), min(values)
        at = max(left, key=lambda i: improvement(best, process.mean(i, solved), process.variances[i]))
