"""Tests failed trials that run again, studies that are deleted, and jobs by the server's templates:
cli_jobs_again_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES LAUNCHER PYTHON [TEST...], as cli_jobs_test.py
"""

import json
import sys
import unittest

from jobs_folder import CLUSTER, LAUNCHER, MODEL, WORKLOAD, ServedFolder
from jobs_folder import setUpModule  # noqa: F401: unittest calls it


class RetryTest(ServedFolder):
    def test_failed_trials_run_again_over_a_kill(self):
        """Two trials crash; the site is mended, and the server is killed while one of them runs again."""
        self.behave({"1": {"exits": 1}, "2": {"exits": 1}})
        address = self.start("--allow-jobs", "--insecure-jobs")
        study = self.create(address, trials=2)
        self.run_cli("--server", address, "study", "watch", study, expect=10)
        first = self.attempts(address, study)
        self.assertEqual([a["outcome"] for a in first], ["crash", "crash"])
        self.let_jobs_wait()
        refused = self.run_cli("--server", address, "study", "retry", study, "--failure-class", "hang", expect=6)
        self.assertIn("of class 'hang'; it has crash", refused.stderr)
        both = self.run_cli("--server", address, "study", "retry", study, "--trial", "1", "--failure-class", "crash",
                            expect=2)
        self.assertIn("--failure-class", both.stderr)
        self.run_cli("--server", address, "study", "retry", study, "--failure-class", "crash")
        self.wait_for(lambda: len(self.began()) == 3)
        self.wait_for(lambda: self.states() == ["ended", "ended", "running"])
        self.server.kill()
        self.server.wait()
        self.let_go()
        address = self.start("--allow-jobs", "--insecure-jobs")
        self.check_whole(self.ended(address, study), trials=2)
        last = self.attempts(address, study)
        self.assertEqual([(a["trial_number"], a["number"], a["outcome"]) for a in last],
                         [(1, 1, "crash"), (1, 2, "ok"), (2, 1, "crash"), (2, 2, "ok")])
        counting = "SELECT outcome FROM measurements WHERE id NOT IN (SELECT measurement_id FROM retractions)"
        self.assertEqual(self.rows(counting), ["ok", "ok"])
        self.assertEqual(len(self.rows("SELECT id FROM measurements")), 4)
        self.assertIn("no failed trial", self.run_cli("--server", address, "study", "retry", study, expect=6).stderr)
        audit = json.loads(self.run_cli("--server", address, "server", "audit", "--study", study, "--output",
                                        "json").stdout)["events"]
        self.assertEqual([(event["method"], event["code"]) for event in audit],
                         [("RetryTrials", "FAILED_PRECONDITION"), ("RetryTrials", "OK"), ("RetryTrials", "FAILED_PRECONDITION"),
                          ("CreateStudy", "OK")])
        self.run_cli("--server", address, "study", "delete", study)
        self.run_cli("--server", address, "study", "show", study, expect=5)
        self.assertEqual(self.rows("SELECT id FROM attempts"), [])
        self.assertEqual(self.rows(counting), ["ok", "ok"])

    def test_a_failed_trial_runs_again_without_a_server(self):
        self.behave({"1": {"exits": 1}, "2": {"exits": 1}})
        store = ["--db", str(self.folder / "server.db")]
        self.run_cli(*self.tune_command(trials=1), *store, expect=10)
        study = json.loads(self.run_cli("study", "list", *store, "--output", "json").stdout)["studies"][0]["id"]
        self.behave({})
        self.run_cli("study", "retry", study, "--trial", "7", *store, expect=5)
        answer = json.loads(self.run_cli("study", "retry", study, "--trial", "1", *store, "--output", "json").stdout)
        self.assertEqual([trial["outcome"] for trial in answer["trials"]], ["ok"])
        self.assertEqual(self.states(), ["ended", "ended"])
        self.assertIn("deleted study", self.run_cli("study", "delete", study, *store).stdout)
        self.run_cli("study", "delete", study, *store, expect=5)


class TemplateTest(ServedFolder):
    def test_a_template_of_the_server_runs(self):
        templates = self.folder / "templates"
        templates.mkdir(mode=0o755)
        (templates / "train.json").write_text(json.dumps(self.job()))
        (templates / "train.json").chmod(0o644)
        address = self.start("--allow-jobs", "--insecure-jobs", "--job-templates", str(templates))
        self.assertIn("train", self.run_cli("--server", address, "server", "info").stdout)
        asks = ["--server", address, "study", "create", *self.question(MODEL, WORKLOAD, CLUSTER), "--launcher",
                LAUNCHER, "--max-trials", "1", "--stop-within", "0", "--output", "json"]
        self.assertIn("must be one of train", self.run_cli(*asks, "--job-template", "tarin", expect=3).stderr)
        created = json.loads(self.run_cli(*asks, "--job-template", "train").stdout)
        self.check_whole(self.ended(address, (created.get("study") or created)["id"]), trials=1)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[6:]], verbosity=2)
