"""Tests the report of what pruning removes: pruning_report_test.py FOLDER_OF_THE_REPORT"""
import sys
import types
import unittest

sys.path.insert(0, sys.argv[1])
import pruning_report  # noqa: E402


def answers(needed, candidates):
    """Returns a study in which no rule rules out `needed` candidates, and rules rule out the others
    from then on."""
    def answer(_binary, _problem, _rows, limit):
        left = candidates - limit
        counts = {"memory": 0, "history": 0, "bound": left if limit >= needed else max(0, left - 1)}
        return {"trial_summary": {"candidate_count": candidates}, "trials": [{}] * limit,
                "search": {"pruned_count_by_rule": counts}}
    return answer


class PrunedTest(unittest.TestCase):
    def test_finds_the_fewest_trials_that_leave_nothing(self):
        group = types.SimpleNamespace(case={}, rows=[{}] * 9)
        for needed in range(1, 10):
            pruning_report.simulated.answer = answers(needed, 9)
            self.assertEqual(len(pruning_report.pruned("", group)["trials"]), needed)


class ShareTest(unittest.TestCase):
    def test_is_not_rounded_up_to_all(self):
        self.assertEqual(pruning_report.at_least(999_999, 1_000_000), "99.9999 %")
        self.assertEqual(pruning_report.at_least(9, 10), "90.00 %")
        self.assertEqual(pruning_report.share(10, 10), "100 %")


unittest.main(argv=sys.argv[:1])
