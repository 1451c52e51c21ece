"""Statistics of step times: median, its interval, spread and drift. All times are in seconds."""

from __future__ import annotations

import bisect
import math
from statistics import NormalDist, median

CONFIDENCE = 0.8
_EXACT_UP_TO = 200
_SLOPE_POINTS = 200  # the number of pairs grows quadratically, so more steps are thinned to this many
_DRIFT_STEPS = 8  # fewer steps have no halves that are worth comparing


def rank_of_interval(count):
    """Returns the largest k for which the k-th smallest and the k-th largest of `count` values
    enclose the median with probability >= CONFIDENCE. Returns None below four values, where no two
    values do.

    P = 1 - 2 P(B < k), B ~ binomial(count, 1/2): Conover, Practical Nonparametric Statistics, 3rd ed. 1999,
    section 3.2. It assumes no distribution, only independent steps; the true level is CONFIDENCE or more.
    For many values, uses his normal approximation, which gives the same ranks and costs nothing.
    """
    if count > _EXACT_UP_TO:
        return int((count + 1) / 2 - NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * math.sqrt(count) / 2)
    below, rank = 0, None  # below: number of ways in which fewer than k values are below the median
    for k in range(1, count // 2 + 1):
        below += math.comb(count, k - 1)
        if 1 - 2 * below / 2**count < CONFIDENCE:
            break
        rank = k
    return rank


def slope(points):
    """Returns the Theil-Sen slope: the median of the slopes between all pairs (Sen 1968). One slow
    step does not change it much."""
    points = points[::math.ceil(len(points) / _SLOPE_POINTS)] if points else []
    slopes = [(later[1] - earlier[1]) / (later[0] - earlier[0])
              for i, earlier in enumerate(points) for later in points[i + 1:]]
    return median(slopes) if slopes else None


class StepTimes:
    """The steps of a run. A sample is one reported time: of one step, or the mean of several if the
    job prints only every n-th step."""

    def __init__(self, warmup):
        self._warmup = warmup
        self._sorted = []  # measured seconds
        self._ranks = {}
        self.measured = []  # (step, seconds), without warm-up
        self.warmup_steps = 0
        self.ignored = 0  # times of steps that were already counted: other ranks print too, or the job restarted
        self.steps_per_sample = 1
        self.last_step = None
        self.last_seconds = None
        self._all = []

    def add(self, seconds, step=None, is_warmup=None):
        """Adds a step. Returns True if it was new. `is_warmup` is what the job says; our own count
        of warm-up steps applies as well."""
        if step is None:
            step = (self.last_step or 0) + 1
        elif self.last_step is not None and step <= self.last_step:
            self.ignored += 1
            return False
        covered = 1 if self.last_step is None else step - self.last_step
        self.steps_per_sample = max(self.steps_per_sample, covered)
        self.last_step, self.last_seconds = step, seconds
        self._all.append(seconds)
        if is_warmup or self.warmup_steps < self._warmup:
            self.warmup_steps += covered
        else:
            self.measured.append((step, seconds))
            bisect.insort(self._sorted, seconds)
        return True

    def __len__(self):
        return len(self._all)

    @property
    def median(self):
        return median(self._sorted) if self._sorted else None

    @property
    def usual(self):
        """Returns the usual time of a step as far as known, for the watchdog. It excludes the first
        step, which often compiles."""
        return median(self._all[1:] or self._all) if self._all else None

    @property
    def interval(self):
        """Returns (low, high) of the median, or None."""
        count = len(self._sorted)
        if count not in self._ranks:
            self._ranks = {count: rank_of_interval(count)}
        rank = self._ranks[count]
        return None if rank is None else (self._sorted[rank - 1], self._sorted[-rank])

    @property
    def half_width_ratio(self):
        """Returns half the interval's width divided by the median, or None."""
        interval = self.interval
        return None if interval is None else (interval[1] - interval[0]) / 2 / self.median

    @property
    def spread_ratio(self):
        """Returns the interquartile range divided by the median, or None."""
        count = len(self._sorted)
        if count < 4:
            return None
        return (self._sorted[count - 1 - count // 4] - self._sorted[count // 4]) / self.median

    @property
    def drift_ratio_per_step(self):
        tilt = slope(self.measured)
        return None if tilt is None else tilt / self.median

    def drift(self, smallest_ratio):
        """Returns the medians of (first half, second half) if they differ by more than the
        interval's width and by more than `smallest_ratio` of the median. Otherwise returns None."""
        if len(self.measured) < _DRIFT_STEPS:
            return None
        seconds = [value for _, value in self.measured]
        first, second = median(seconds[:len(seconds) // 2]), median(seconds[-(len(seconds) // 2):])
        low, high = self.interval
        moved = abs(second - first)
        return (first, second) if moved > high - low and moved > smallest_ratio * self.median else None
