"""Tests questions about a whole training run and about several clusters at once:
cli_run_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES"""

import csv
import io
import json
import unittest

from programs import TINY_CLUSTER, Folder, alike

H100, V100 = "nvidia-h100-sxm5-80gb", "nvidia-v100-sxm2-32gb"


class RunTest(Folder):
    def on_chips(self, *chips, nodes=2):
        own = self.question()
        flags = [flag for chip in chips for flag in ("--chip", chip)]
        return [*own[:own.index("--cluster")], *flags, "--nodes", str(nodes)]

    def tune(self, *args, expect=0, **options):
        return self.run_cli("tune", *args, expect=expect, **options)

    def test_what_the_run_takes(self):
        run = ("--tokens", "0.1T", "--device-hour-price", "2")
        answer = json.loads(self.tune(*self.question(), *run, "--output", "json").stdout)
        plan = answer["plans"][0]
        steps = -(-10**11 // (2048 * 64))
        seconds = steps * plan["estimate"]["step_time_seconds"]
        self.assertEqual(plan["run"]["step_count"], steps)
        self.assertAlmostEqual(plan["run"]["days"], seconds / 86400)
        self.assertAlmostEqual(plan["run"]["price"], 2 * 8 * seconds / 3600)
        self.assertAlmostEqual(plan["run"]["max_device_energy_kilowatt_hours"], 0.4 * 8 * seconds / 3600)
        self.assertNotIn("is_within_max_days", plan["run"])
        self.assertEqual(answer["question"]["run"]["token_count"], 1e11)
        text = self.tune(*self.question(), *run).stdout
        self.assertIn(f"The run's {steps:,} steps take ", text)
        self.assertLessEqual(text.count("\n"), 40)
        self.assertNotIn("The run's", self.tune(*self.question()).stdout)

    def test_several_chips(self):
        text = self.tune(*self.on_chips(H100, V100)).stdout
        for chip in (H100, V100):
            self.assertIn(f"The plan for 16 devices of 2 nodes of {chip}, for megatron-core\n", text)
        answer = json.loads(self.tune(*self.on_chips(H100, V100), "--output", "json").stdout)
        self.assertEqual([(p["cluster_index"], p["chip"], p["device_count"]) for p in answer["points"]],
                         [(0, H100, 16), (1, V100, 16)])
        # The plan to launch is tune's own, with its flags.
        alone = json.loads(self.tune(*self.on_chips(V100), "--output", "json").stdout)
        launch = answer["points"][1]["launch"]
        self.assertEqual(launch["plan"], alone["plans"][0]["plan"])
        self.assertEqual(launch["exports"], alone["plans"][0]["exports"])
        rows = list(csv.DictReader(io.StringIO(
            self.tune(*self.on_chips(H100, V100), "--tokens", "1B", "--output", "csv").stdout)))
        self.assertEqual([row["chip"] for row in rows], [H100, V100])
        self.assertTrue(all(float(row["run.days"]) > 0 for row in rows))

    def test_files_and_device_counts(self):
        nodes_of_four = {"name": "fours", "pools": [
            {"name": "b", "chip": H100, "node_count": 4, "devices_per_node": 4}]}
        args = [*self.question(), "--cluster", self.write("other.json", nodes_of_four)]
        answer = json.loads(self.tune(*args, "--devices", "8,16", "--output", "json").stdout)
        self.assertEqual([(p["cluster_name"], p["device_count"]) for p in answer["points"]],
                         [("a100x8", 8), ("a100x8", 16), ("fours", 8), ("fours", 16)])
        done = self.tune(*args, "--devices", "12", expect=3)
        self.assertIn("--devices = 12; must be a multiple of the 8 devices of a node", done.stderr)

    def test_the_smallest_share_in_time(self):
        def days(limit):
            return json.loads(self.tune(*self.on_chips(H100, nodes=4), "--tokens", "100B", "--days", str(limit),
                                        "--output", "json").stdout)
        slow = days(1000)
        self.assertEqual([p["device_count"] for p in slow["points"]], [8, 16, 24, 32])
        self.assertEqual(slow["recommended_index"], 0)
        between = (slow["points"][0]["launch"]["run"]["days"] + slow["points"][1]["launch"]["run"]["days"]) / 2
        answer = days(between)
        self.assertEqual(answer["recommended_index"], 1)
        self.assertFalse(answer["points"][0]["launch"]["run"]["is_within_max_days"])
        text = self.tune(*self.on_chips(H100, nodes=4), "--tokens", "100B", "--days", str(between)).stdout
        self.assertIn("Take 16 devices of 4 nodes of nvidia-h100-sxm5-80gb: of the sizes that were", text)
        self.assertIn("\nThe plan for 16 devices", text)
        none = self.tune(*self.on_chips(H100, nodes=4), "--tokens", "100B", "--days", "0.001").stdout
        self.assertIn("No size is enough: the run ends within 0.001 days on no size that was tried", none)

    def test_served_answers_are_equal(self):
        server = ["--server", self.start_server()]
        for args in ((*self.on_chips(H100, V100), "--tokens", "100B", "--days", "30", "--device-hour-price", "2"),
                     (*self.question(), "--tokens", "100B")):
            embedded, served = (alike(self.tune(*args, *where, "--output", "json").stdout) for where in ([], server))
            self.assertEqual(embedded, served)

    def test_mistakes(self):
        done = self.tune(*self.on_chips(H100, V100), "--tokens", "-1", "--days", "0",
                         "--device-hour-price", "x", expect=3).stderr
        for part in ("--tokens = -1; must be at least 1", "--days = 0; must be > 0 and at most 36500",
                     "--device-hour-price = x; must be a number, or CHIP=NUMBER"):
            self.assertIn(part, done)
        for args, part in (
                (self.on_chips(H100, "none-such"), "--chip = none-such; unknown"),
                ([*self.on_chips(H100, V100), "--tokens", "1B", "--device-hour-price", "H1=2"], "H1; unknown"),
                ([*self.question(), "--cluster", self.write("bad.json", {**TINY_CLUSTER, "pools": []})], "pools")):
            self.assertIn(part, self.tune(*args, expect=3).stderr)
        for args in ([*self.question(), "--days", "3"], [*self.question(), "--device-hour-price", "2"],
                     [*self.on_chips(H100, V100), "--top", "2"], [*self.question(), "--tokens", "many"]):
            self.tune(*args, expect=2)
        self.run_cli("explain", *self.on_chips(H100, V100), expect=2)  # it explains one answer


if __name__ == "__main__":
    unittest.main(argv=["cli_run_test"])
