"""Tests the tuners that trials are compared with: replay_competitors_test.py
FOLDER_OF_COMPETITORS"""
import math
import sys
import unittest

sys.path.insert(0, sys.argv[1])
import competitors  # noqa: E402


def plan(micro_batch=1, tensor=2, pipeline=2, recompute="none", **more):
    return {"micro_batch_size": micro_batch, "tensor_parallel": tensor, "pipeline_parallel": pipeline,
            "data_parallel": 2, "zero_stage": 1, "recompute": {"granularity": recompute}, **more}


def row(of, outcome="ok", seconds=1.0):
    return {"plan": of, "outcome": outcome, "step_time_seconds": seconds if outcome == "ok" else None}


class GridTest(unittest.TestCase):
    def test_out_of_memory_prunes_what_needs_as_much(self):
        failed = [row(plan(4), "oom")]
        for pruned in (plan(8), plan(4, tensor=1, pipeline=4)):
            self.assertTrue(competitors.is_pruned(pruned, failed))
        for kept in (plan(2), plan(8, recompute="full"), plan(8, tensor=4, pipeline=1), plan(8, zero_stage=0,
                                                                                           data_parallel=4)):
            self.assertFalse(competitors.is_pruned(kept, failed))

    def test_a_crash_prunes_nothing(self):
        self.assertFalse(competitors.is_pruned(plan(8), [row(plan(4), "crash")]))

    def test_what_ran_prunes_what_is_worse_in_one_dimension(self):
        done = [row(plan(4))]
        self.assertTrue(competitors.is_pruned(plan(2), done))
        self.assertTrue(competitors.is_pruned(plan(4, recompute="full"), done))
        self.assertFalse(competitors.is_pruned(plan(2, recompute="full"), done))
        self.assertFalse(competitors.is_pruned(plan(8), done))
        self.assertFalse(competitors.is_pruned(plan(2, tensor=4, pipeline=1), done))

    def test_pruned_plans_come_last(self):
        rows = [row(plan(1)), row(plan(4)), row(plan(1, tensor=4, pipeline=1))]
        self.assertEqual(list(competitors.grid(rows)), [rows[1], rows[2], rows[0]])


class ProcessTest(unittest.TestCase):
    def test_one_observation_by_hand(self):
        process = competitors.Process([[0.0], [competitors.LENGTH]])
        process.observe(0)
        # The covariance of the two is exp(-1/2), and the variance of the observation is 1 +
        # noise^2.
        alike, noisy = math.exp(-0.5), 1 + competitors.NOISE**2
        self.assertAlmostEqual(process.mean(1, process.solve([3.0])), 3 * alike / noisy)
        self.assertAlmostEqual(process.variances[1], 1 - alike**2 / noisy)

    def test_failures_count_as_the_slowest_run(self):
        values = competitors.standardised([1.0, None, math.e])
        self.assertEqual(values[1], values[2])
        self.assertAlmostEqual(sum(values), 0)

    def test_every_plan_is_tried_once(self):
        rows = [row(plan(2**i), seconds=1.0 + i) for i in range(4)] + [row(plan(32), "oom")]
        tried = list(competitors.gaussian_process(rows, 3))
        self.assertEqual(len(tried), len(rows))
        for each in rows:
            self.assertIn(each, tried)


unittest.main(argv=sys.argv[:1])
