"""Tests the programs as users run them: cli_replay_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES"""

import json
import sys
import unittest

from programs import Folder, alike


class ReplayTest(Folder):
    """Tests `tune --launcher replay`, in which measured results stand in for a cluster."""

    ROWS = [{"plan": {"tensor_parallel": 8}, "outcome": "ok", "step_time_seconds": 4.0},
            {"plan": {"tensor_parallel": 2}, "outcome": "ok", "step_time_seconds": 2.0,
             "peak_memory_bytes": 2**34},
            {"plan": {"tensor_parallel": 2}, "outcome": "ok", "step_time_seconds": 3.0},
            {"plan": {"tensor_parallel": 1}, "outcome": "oom"},
            {"plan": {"tensor_parallel": 4}, "outcome": "crash"}]

    def replay(self, rows, *args, trials=10, expect=0):
        lines = "\n".join(json.dumps(row) for row in rows) + "\n\n"
        done = self.run_cli("tune", *self.question(), "--launcher", "replay", "--replay",
                            self.write("replay.jsonl", lines), "--max-trials", str(trials),
                            "--output", "json", *args, expect=expect)
        return done

    def test_every_plan_is_tried_once_and_ranked_by_what_was_measured(self):
        answer = json.loads(self.replay(self.ROWS).stdout)
        tried = {trial["plan"]["tensor_parallel"]: trial for trial in answer["trials"]}
        self.assertEqual(sorted(tried), [1, 2, 4, 8])
        self.assertEqual(len(answer["trials"]), 4)
        self.assertEqual({t: trial["outcome"] for t, trial in tried.items()},
                         {1: "oom", 2: "ok", 4: "crash", 8: "ok"})
        self.assertEqual(tried[2]["step_time_seconds"], 2.5)  # median of its two rows
        self.assertEqual(tried[1]["step_time_seconds"], 0)
        self.assertEqual([plan["plan"]["tensor_parallel"] for plan in answer["plans"]], [2, 8])
        self.assertEqual([plan["estimate"]["provenance"] for plan in answer["plans"]],
                         ["measured", "measured"])
        self.assertAlmostEqual(answer["plans"][0]["estimate"]["step_time_seconds"], 2.5)
        self.assertEqual(answer["trial_summary"]["stop_reason"], "all_tried")
        self.assertEqual(answer["trial_summary"]["candidate_count"], 4)

    def test_lists_of_what_was_tried_and_ranked(self):
        answer = json.loads(self.replay(self.ROWS).stdout)
        study = json.loads(self.run_cli("study", "list", "--output", "json").stdout)["studies"][0]["id"]

        def listed(verb, *args):
            return json.loads(self.run_cli("study", verb, study, *args, "--output", "json").stdout)

        trials = listed("trials")["trials"]
        self.assertEqual([trial["number"] for trial in trials], [1, 2, 3, 4])
        for key in ("plan_digest", "outcome", "step_time_seconds", "peak_memory_bytes", "device_seconds"):
            self.assertEqual([trial[key] for trial in trials], [trial[key] for trial in answer["trials"]], key)
        self.assertEqual([trial["step_time_seconds"] for trial in listed("trials", "--order", "fastest")["trials"]],
                         [2.5, 4.0])
        first = listed("trials", "--page-size", "3")
        self.assertEqual(listed("trials", "--page-token", first["next_page_token"])["trials"], trials[3:])
        plans = [plan for plan in listed("plans")["plans"] if plan["rank"] > 0]
        self.assertEqual([plan["plan_digest"] for plan in plans],
                         [plan["plan_digest"] for plan in answer["plans"]])
        self.assertEqual({plan["state"] for plan in plans}, {"measured"})
        self.assertIn("oom", self.run_cli("study", "trials", study).stdout)
        self.assertIn("measured", self.run_cli("study", "plans", study).stdout)
        self.run_cli("study", "trials", "study-none", expect=5)
        self.run_cli("study", "trials", study, "--order", "slowest", expect=3)

    def test_order_of_rows_and_repetition_change_no_byte(self):
        first = self.replay(self.ROWS, trials=3)
        again = self.replay(self.ROWS[::-1], trials=3)
        self.assertEqual(alike(first.stdout), alike(again.stdout))
        self.assertEqual(len(json.loads(first.stdout)["trials"]), 3)

    def test_what_a_replay_measures_teaches_nothing_else(self):
        before = alike(self.run_cli("tune", *self.question(), "--output", "json").stdout)
        trials = json.loads(self.replay(self.ROWS).stdout)["trials"]
        again = json.loads(self.replay(self.ROWS).stdout)["trials"]
        self.assertEqual(trials, again)
        self.assertEqual(before,
                         alike(self.run_cli("tune", *self.question(), "--output", "json").stdout))

    def test_budget_of_device_seconds(self):
        # A trial of 8 devices takes at least 8 x 120 s.
        answer = json.loads(self.replay(self.ROWS[:3], "--max-device-seconds", "1500").stdout)
        self.assertEqual(len(answer["trials"]), 1)
        self.assertEqual(answer["trial_summary"]["stop_reason"], "device_time_limit")

    def test_all_failing(self):
        done = self.replay(self.ROWS[3:], expect=10)
        self.assertIn("none of 2 trials", done.stderr)
        self.assertEqual(len(json.loads(done.stdout)["trials"]), 2)

    def test_every_bad_row_is_named(self):
        rows = [{"plan": {"tensor_parallel": 3}, "outcome": "oom"},
                {"plan": {"tensor_parallel": 2}, "outcome": "ok"},
                {"plan": {"tensor_paralel": 2}, "outcome": "oom"},
                *self.ROWS]
        errors = self.replay(rows, expect=3).stderr
        for field in ("trials.replay[0].plan.tensor_parallel",
                      "trials.replay[1].step_time_seconds", "trials.replay[2].plan.tensor_paralel"):
            self.assertIn(field, errors)
        self.assertNotIn("trials.replay[3]", errors)

    def test_table(self):
        done = self.run_cli("tune", *self.question(), "--launcher", "replay", "--replay",
                            self.write("r.jsonl", json.dumps(self.ROWS[0])), "--max-trials", "1")
        self.assertIn("1 of 1 plans were tried", done.stdout)
        self.assertIn("Trials, in the order tried", done.stdout)

    def test_served_and_embedded_answers_are_equal(self):
        embedded = alike(self.replay(self.ROWS).stdout)
        self.assertEqual(embedded,
                         alike(self.replay(self.ROWS, "--server", self.start_server()).stdout))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
