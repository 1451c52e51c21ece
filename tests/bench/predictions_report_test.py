"""Tests the report of predictions that moved: predictions_report_test.py FOLDER_OF_THE_REPORT"""
import sys
import unittest

sys.path.insert(0, sys.argv[1])
import predictions  # noqa: E402


def row(step, memory=1e9):
    return {"step": step, "memory": memory, "matmul": step}


class ReportTest(unittest.TestCase):
    KEPT = {"a100/megatron-core/dense/tp": row(1.0), "a100/megatron-core/dense/pp": row(2.0)}

    def test_what_did_not_move_has_no_row(self):
        self.assertEqual(predictions.report(self.KEPT, self.KEPT, []), "Nothing moved.")

    def test_what_moved_has_one(self):
        found = {**self.KEPT, "a100/megatron-core/dense/pp": row(2.5)}
        self.assertIn("| a100 | megatron-core | 1 of 2 | +25.0 % | +25.0 % (dense/pp, matmul) | none |",
                      predictions.report(self.KEPT, found, []))

    def test_a_new_chip_is_listed_as_not_compared(self):
        found = {**self.KEPT, "br100/megatron-core/dense/tp": row(9.0), "br100/megatron-core/dense/pp": row(9.0)}
        self.assertEqual(predictions.report(self.KEPT, found, []),
                         "Nothing moved.\n\nNew, not compared (2 questions): br100.")

    def test_a_new_question_of_a_known_chip_is_listed_itself(self):
        found = {**self.KEPT, "a100/jax/dense/tp": row(9.0)}
        self.assertIn("New, not compared (1 questions): a100/jax/dense/tp.", predictions.report(self.KEPT, found, []))

    def test_what_is_gone_is_listed(self):
        found = {"a100/megatron-core/dense/tp": row(1.0)}
        self.assertIn("Gone, not compared (1 questions): a100/megatron-core/dense/pp.",
                      predictions.report(self.KEPT, found, []))


unittest.main(argv=sys.argv[:1])
