"""Tests the placement of jobs on clusters: cli_place_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES"""

import json
import shutil
import sys
import unittest

from programs import BIG_MODEL, LLAMA, TINY_MODEL, TINY_WORKLOAD, Folder


def pool(nodes, name="a"):
    return {"name": name, "chip": "nvidia-a100-sxm4-80gb", "node_count": nodes, "devices_per_node": 8}


def cluster(name, *pools):
    return {"name": name, "pools": list(pools)}


def job(name, **changes):
    return {"name": name, "model": TINY_MODEL, "workload": TINY_WORKLOAD, **changes}


class PlaceTest(Folder):
    def place(self, jobs, clusters, *args, **expected):
        return self.run_cli("place", "--jobs", self.write("jobs.json", {"jobs": jobs}), "--clusters",
                            self.write("clusters.json", {"clusters": clusters}), *args, **expected)

    def answer(self, jobs, clusters, *args, **expected):
        return json.loads(self.place(jobs, clusters, *args, "--output", "json", **expected).stdout)

    def tuned(self, nodes):
        question = self.question(cluster=cluster("some", pool(nodes)))
        return json.loads(self.run_cli("tune", *question, "--no-record", "--output", "json").stdout)["plans"][0]


class HandTest(PlaceTest):
    # All nodes are equal. `narrow` runs on one of them, `wide` on one or two, `spare` on one.
    JOBS = [job("narrow", max_devices=8), job("wide", max_devices=16), job("spare", max_devices=8, weight=0.3)]
    CLUSTERS = [cluster("two", pool(2)), cluster("one", pool(1))]

    # Let r be the throughput on one node / that on two. If r < 0.7, the best is narrow on `one` and wide on
    # `two`, with 1 + 1; to place spare as well gives 1 + r + 0.3. First come, first served puts narrow on the
    # first of equal nodes, one of `two`, wide on the other one, and spare on `one`: 1 + r + 0.3.
    def test_by_hand(self):
        answer = self.answer(self.JOBS, self.CLUSTERS)
        one, two = self.tuned(1), self.tuned(2)
        r = two["estimate"]["step_time_seconds"] / one["estimate"]["step_time_seconds"]
        self.assertLess(r, 0.7)
        narrow, wide, spare = answer["jobs"]
        self.assertEqual(narrow["nodes"], [{"cluster": "one", "pool": "a", "node_count": 1}])
        self.assertEqual(wide["nodes"], [{"cluster": "two", "pool": "a", "node_count": 2}])
        self.assertEqual(spare["nodes"], [])
        self.assertEqual(spare["reason"], "the objective is greater if wide has the nodes")
        # The plans are those of `tune` for these nodes.
        for placed, tuned in ((narrow, one), (wide, two)):
            self.assertEqual(placed["plan"]["plan"], tuned["plan"])
            self.assertEqual(placed["plan"]["estimate"]["step_time_seconds"], tuned["estimate"]["step_time_seconds"])
        tokens = 64 * 2048
        self.assertAlmostEqual(wide["tokens_per_second"], tokens / two["estimate"]["step_time_seconds"])
        self.assertEqual((answer["objective_value"], answer["objective_bound"], answer["is_proven"]), (2, 2, True))
        self.assertAlmostEqual(answer["first_come_objective_value"], 1.3 + r)
        # With spare in its place, the best is what first come, first served has.
        (displaced,) = answer["displaced"]
        self.assertEqual((displaced["name"], displaced["holders"], displaced["lost_ratio"]), ("spare", ["wide"], 1))
        self.assertAlmostEqual(displaced["objective_price"], 0.7 - r)
        # One more node of either cluster has room for spare.
        self.assertEqual([one["used_node_count"] for one in answer["pools"]], [2, 1])
        for one in answer["pools"]:
            self.assertAlmostEqual(one["objective_gain"], 0.3)
        # Candidates: one and two nodes of `two`, one of `one`; two nodes are too many for two of the jobs.
        # Searches: one and two nodes. What three nodes would bring nobody may use.
        search = answer["search"]
        self.assertEqual((search["candidate_count"], search["fitting_count"], search["question_count"]), (7, 7, 2))

    def test_table(self):
        text = self.place(self.JOBS, self.CLUSTERS).stdout
        self.assertIn("2 of 3 jobs are placed. The weighted sum of relative throughputs is 2.000, and no", text)
        self.assertRegex(text, r"narrow +1 of one/a +1 +8 ")
        self.assertRegex(text, r"wide +2 of two/a +1 +16 +[\d,]+ +100.0 %")
        self.assertIn("spare: the objective is greater if wide has the nodes.\n", text)
        self.assertRegex(text, r"two/a +2 +2 +\+0.300\n")

    # The same input gives the same bytes, and every solver the same placement.
    def test_equal_bytes(self):
        first = self.place(self.JOBS, self.CLUSTERS, "--output", "json").stdout
        self.assertEqual(self.place(self.JOBS, self.CLUSTERS, "--output", "json").stdout, first)
        expected = json.loads(first)
        del expected["search"]
        for solver, program in (("exact", "sh"), ("cbc", "cbc"), ("glpk", "glpsol")):
            if shutil.which(program) is None:
                done = self.place(self.JOBS, self.CLUSTERS, "--solver", solver, expect=6)
                self.assertIn(f"error: solver {solver} is not installed; install Debian's package", done.stderr)
                continue
            answer = self.answer(self.JOBS, self.CLUSTERS, "--solver", solver)
            self.assertEqual(answer.pop("search")["solver"], solver)
            self.assertEqual(answer, expected)


class ObjectiveTest(PlaceTest):
    # One node and two equal jobs. By weight it is the first one's, by deadline the other one's.
    def test_deadline(self):
        jobs = [job("heavy", weight=2), job("hasty", step_count=1000, max_days=365)]
        clusters = [cluster("one", pool(1))]
        by_weight = self.answer(jobs, clusters)
        self.assertEqual([len(one["nodes"]) for one in by_weight["jobs"]], [1, 0])
        answer = self.answer(jobs, clusters, "--objective", "deadline")
        self.assertEqual([len(one["nodes"]) for one in answer["jobs"]], [0, 1])
        self.assertEqual((answer["objective_value"], answer["throughput_value"]), (1, 1))
        hasty = answer["jobs"][1]
        self.assertTrue(hasty["meets_deadline"])
        seconds = hasty["plan"]["estimate"]["step_time_seconds"]
        self.assertAlmostEqual(hasty["days"], 1000 * seconds / 86400)
        # It is placed first, and first come, first served would not do that.
        self.assertEqual(answer["first_come_objective_value"], 0)

    # Two nodes and two equal jobs: for one job both bring more, but then the other one has nothing.
    def test_fair(self):
        jobs = [job("first", weight=9), job("second")]
        clusters = [cluster("two", pool(2))]
        self.assertEqual(self.answer(jobs, clusters)["jobs"][1]["nodes"], [])
        answer = self.answer(jobs, clusters, "--objective", "fair")
        self.assertEqual([one["nodes"][0]["node_count"] for one in answer["jobs"]], [1, 1])
        self.assertEqual(answer["objective_value"], answer["jobs"][0]["throughput_ratio"])


class MemoryTest(PlaceTest):
    # In 3 GiB the job fits with a probability of about two thirds, on one node or two.
    SHORT = cluster("short", {**pool(2), "memory_capacity_bytes": 3 << 30})

    def test_sure_nodes_come_first(self):
        (placed,) = self.answer([job("only")], [self.SHORT, cluster("roomy", pool(1))])["jobs"]
        self.assertEqual([one["cluster"] for one in placed["nodes"]], ["roomy"])
        self.assertGreaterEqual(placed["plan"]["estimate"]["fit_probability_ratio"], 0.95)

    def test_warns_if_there_are_no_sure_ones(self):
        answer = self.answer([job("only")], [self.SHORT])
        (placed,) = answer["jobs"]
        probability = placed["plan"]["estimate"]["fit_probability_ratio"]
        self.assertLess(probability, 0.95)
        self.assertEqual(answer["warnings"], [f'job "only": its plan fits with a probability of {100 * probability:.0f} %; '
                                              "it is no surer on any nodes that it may have"])


class MixTest(PlaceTest):
    # `tune` recommends to mix these pools for Llama-2-70B, which then takes both of them whole. A job of at most
    # 16 devices has one pool at most.
    def test_pair_of_pools(self):
        site = {**cluster("site", pool(2), {**pool(2, "h"), "chip": "nvidia-h100-sxm5-80gb"}),
                "inter_pool": {"bandwidth_bytes_per_second_per_node": 50e9}}
        workload = {"sequence_length": 4096, "global_batch_size": 256, "framework": {"name": "flagscale"}}
        llama = job("llama", model=str(LLAMA / "config.json"), workload=workload)
        question = ["--model", str(LLAMA / "config.json"), *self.question(workload=workload, cluster=site)[2:]]
        tuned = json.loads(self.run_cli("tune", *question, "--no-record", "--output", "json").stdout)
        self.assertEqual(tuned["heterogeneous"]["mix_verdict"], "mix")
        answer = self.answer([llama], [site])
        (placed,) = answer["jobs"]
        self.assertEqual([(one["pool"], one["node_count"]) for one in placed["nodes"]], [("a", 2), ("h", 2)])
        self.assertEqual(placed["plan"]["plan"], tuned["plans"][0]["plan"])
        # Beside it is nothing left; with one node more of the first pool a small job has that node.
        small = job("small", max_devices=8, weight=0.001)
        answer = self.answer([llama, small], [site])
        self.assertEqual(answer["displaced"][0]["holders"], ["llama"])
        self.assertGreater(answer["pools"][0]["objective_gain"], 0)
        limited = self.answer([{**llama, "max_devices": 16}], [site])
        self.assertEqual(len(limited["jobs"][0]["nodes"]), 1)


class InputTest(PlaceTest):
    # Paths start from the folder of the file that states them, and the files may be YAML.
    def test_files(self):
        (self.folder / "jobs").mkdir()
        self.write("model.json", TINY_MODEL)
        self.write("jobs/workload.json", TINY_WORKLOAD)
        self.write("cluster.yaml", "name: one\npools:\n- {chip: nvidia-a100-sxm4-80gb, node_count: 1}\n")
        jobs = self.write("jobs/jobs.yaml", "# a comment\n- name: only\n  model: ../model.json\n  workload: workload.json\n")
        clusters = self.write("clusters.json", '["cluster.yaml"]  // a comment')
        done = self.run_cli("place", "--jobs", jobs, "--clusters", clusters, "--output", "json")
        self.assertEqual(json.loads(done.stdout)["jobs"][0]["nodes"][0]["cluster"], "one")

    def test_every_mistake(self):
        bad_jobs = [job("same", weight=-1, min_devices=8, max_devices=4, max_days=2),
                    {"name": "same", "model": "none.json", "workload": {**TINY_WORKLOAD, "global_batch_size": 0}}, 7]
        bad_clusters = [cluster("c", {**pool(0), "chip": "nvidia-a100-sxm4-80gb"}), cluster("d", pool(1)), 3]
        done = self.place(bad_jobs, bad_clusters, "--objective", "fair", expect=3)
        jobs, clusters = (str(self.folder / name) for name in ("jobs.json", "clusters.json"))
        self.assertEqual(sorted(done.stderr.splitlines()), sorted([
            f"error: {jobs}: row 1: weight = -1; must be > 0 and <= 1e+06",
            f"error: {jobs}: row 1: max_devices = 4; must be >= 8",
            f"error: {jobs}: row 1: step_count = missing; max_days needs it",
            f"error: {jobs}: row 2: name = \"same\"; another job has this name",
            f"error: --jobs = {self.folder}/none.json; cannot be read: No such file or directory",
            f"error: {jobs}: row 2: workload.global_batch_size = 0; must be >= 1",
            f"error: {jobs}: row 3 = 7; must be an object",
            f"error: {clusters}: row 1: pools[0].node_count = 0; must be >= 1",
            f"error: {clusters}: row 3 = 3; must be an object, or the path of a file"]))
        done = self.place([job("a")], [cluster("c", pool(1)), cluster("c", pool(1))], "--objective", "deadline",
                          expect=3)
        self.assertEqual(done.stderr, "error: " + clusters + ": row 2: name = \"c\"; another cluster has this name\n"
                         "error: --objective = deadline; needs a job with max_days\n")
        done = self.place([], [cluster("c", pool(1))], expect=3)
        self.assertEqual(done.stderr, f"error: {jobs} = 0 entries; must be a list of 1 to 100\n")

    def test_too_many_jobs_for_the_exact_search(self):
        done = self.place([job(str(i)) for i in range(13)], [cluster("c", pool(1))], "--solver", "exact", expect=6)
        self.assertIn("error: 13 jobs; the exact search places at most 12, so use a solver", done.stderr)

    def test_jobs_that_cannot_run(self):
        jobs = [job("large", model=BIG_MODEL), job("picky", min_devices=3, max_devices=5)]
        done = self.place(jobs, [cluster("c", pool(1))], expect=4)
        self.assertRegex(done.stdout, r"large: on none of its candidates; on the largest, of 8 devices, no plan fits")
        self.assertIn("picky: no part of a pool has 3 to 5 devices.\n", done.stdout)


class ServerTest(PlaceTest):
    # The server searches and solves; the answer has the bytes of the one without a server.
    def test_equal_bytes(self):
        server = ("--server", self.start_server())
        alone = self.place(HandTest.JOBS, HandTest.CLUSTERS, "--output", "json").stdout
        self.assertEqual(self.place(HandTest.JOBS, HandTest.CLUSTERS, "--output", "json", *server).stdout, alone)
        short = [MemoryTest.SHORT, cluster("other", pool(1))]
        hurried = [job("hasty", step_count=1000, max_days=365), job("other")]
        options = ("--objective", "deadline", "--solver", "exact")
        self.assertEqual(self.place(hurried, short, *options, *server).stdout,
                         self.place(hurried, short, *options).stdout)

    def test_mistakes_name_the_files(self):
        server = ("--server", self.start_server())
        args = ([job("a", weight=0), job("a")], [cluster("c", pool(0))])
        self.assertEqual(self.place(*args, *server, expect=3).stderr, self.place(*args, expect=3).stderr)

    def test_no_server(self):
        done = self.place([job("a")], [cluster("c", pool(1))], "--server", "127.0.0.1:1", expect=8)
        self.assertIn("error: no Meshwright server answers at '127.0.0.1:1'", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
