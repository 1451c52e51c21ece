"""Tests the ways to state a cluster, as users do: cli_cluster_test.py MESHWRIGHT MESHWRIGHTD
EXAMPLES [TEST...]

SLURM_CONF names a Slurm of this machine (scripts/slurm_up.sh) with 5 nodes of gpu:h100:8, two at a
leaf switch.
"""

import json
import os
import subprocess
import sys
import unittest
from unittest import mock

from programs import TINY_CLUSTER, TINY_MODEL, TINY_WORKLOAD, Folder

ADVICE = "must be stated by --chip and --nodes"
NODE = {
    "metadata": {"name": "a", "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}},
    "status": {"allocatable": {"nvidia.com/gpu": "8"}, "capacity": {"memory": "2113407460Ki"},
               "conditions": [{"type": "Ready", "status": "True"}]}}


class ClusterFolder(Folder):
    def tune(self, *cluster, expect=0):
        done = self.run_cli("tune", "--model", self.write("model.json", TINY_MODEL), "--workload",
                            self.write("workload.json", TINY_WORKLOAD), *cluster, "--no-record",
                            "--output", "json", expect=expect)
        return json.loads(done.stdout or "null"), done

    def cluster_mistakes(self, *cluster):
        """Returns what is wrong with the cluster that the flags state."""
        _, done = self.tune(*cluster, expect=3)
        error = json.loads(done.stderr.splitlines()[-1])["error"]  # below notes on what was found
        return {field["field"]: field["description"] for field in error["fields"]}

    def put_tools(self, **outputs):
        """Makes programs that print a recorded output the only ones that are found."""
        tools = self.folder / "tools"
        tools.mkdir()
        for name, output in outputs.items():
            program = tools / name.replace("_", "-")
            (tools / f"{program.name}.out").write_text(output.rstrip("\n") + "\n")
            program.write_text(f"#!/bin/sh\nwhile read -r line; do echo \"$line\"; done <{program}.out\n")
            program.chmod(0o755)
        patch = mock.patch.dict(os.environ, PATH=str(tools))
        patch.start()
        self.addCleanup(patch.stop)


class FlagsTest(ClusterFolder):
    def test_flags_answer_like_a_file(self):
        by_flags, _ = self.tune("--chip", "NVIDIA A100-SXM4-80GB", "--nodes", "1")
        by_file, _ = self.tune("--cluster", self.write("cluster.json", TINY_CLUSTER))
        self.assertEqual(by_flags["plans"], by_file["plans"])
        defaults = {row["field"] for row in by_flags["applied_defaults"]}
        self.assertLessEqual({"cluster.pools[0].devices_per_node",
                              "cluster.pools[0].inter_node.nic_gigabits_per_second"}, defaults)

    def test_a_question_of_flags_alone(self):
        one_node = ["--chip", "NVIDIA A100-SXM4-80GB", "--nodes", "1"]
        by_files, _ = self.tune(*one_node)
        model = self.write("model.json", TINY_MODEL)
        sizes = ["--sequence-length", str(TINY_WORKLOAD["sequence_length"]),
                 "--global-batch-size", str(TINY_WORKLOAD["global_batch_size"])]
        ask = ["tune", "--model", model, *one_node, "--no-record", "--output", "json"]
        only = json.loads(self.run_cli(*ask, "--workload", self.write(
            "sizes.json", {name: TINY_WORKLOAD[name] for name in ("sequence_length", "global_batch_size")})).stdout)
        self.assertEqual(json.loads(self.run_cli(*ask, *sizes).stdout)["plans"], only["plans"])
        other = self.write("other.json", {**TINY_WORKLOAD, "global_batch_size": 1024})
        done = self.run_cli(*ask, *sizes, "--workload", other)
        self.assertEqual(json.loads(done.stdout)["plans"], by_files["plans"])
        self.assertIn(f"--global-batch-size {TINY_WORKLOAD['global_batch_size']} replaces 1024 of {other}",
                      done.stderr)
        wrong = self.run_cli(*ask[:-2], "--sequence-length", "0", "--global-batch-size", "8", expect=3).stderr
        self.assertIn("--sequence-length = 0; must be", wrong)

    def test_what_is_stated_is_no_default(self):
        answer, _ = self.tune("--chip", "H200", "--nodes", "2", "--devices-per-node", "4", "--nic", "400")
        fields = {row["field"] for row in answer["applied_defaults"]}
        self.assertNotIn("cluster.pools[0].devices_per_node", fields)
        self.assertNotIn("cluster.pools[0].inter_node.nic_gigabits_per_second", fields)

    def test_ambiguous_names_list_their_chips(self):
        mistakes = self.cluster_mistakes("--chip", "H100", "--nodes", "1")
        self.assertEqual(mistakes, {"cluster.pools[0].chip": "H100; names several chips: "
                                    "nvidia-h100-pcie-80gb, nvidia-h100-sxm5-80gb"})

    def test_contradictions_are_one_error(self):
        path = self.write("cluster.json", TINY_CLUSTER)
        self.assertEqual(
            self.cluster_mistakes("--cluster", path, "--chip", "H200", "--nodes", "1"),
            {"cluster": f"{path}; stated beside --chip, --nodes; must be one of the two: a file, or "
                        "--chip and --nodes"})
        self.assertEqual(self.cluster_mistakes(),
                         {"cluster": "missing; must be stated by --cluster, or by --chip and --nodes"})

    def test_reserved_words_name_no_cluster(self):
        for word in ("slurm", "local", "kubernetes"):
            path = self.write("cluster.json", {**TINY_CLUSTER, "name": word})
            self.assertEqual(
                self.cluster_mistakes("--cluster", path),
                {"cluster.name": f"{word}; must be another name, because --cluster {word} looks for one"})

    def test_errors_name_the_flags(self):
        done = self.run_cli("tune", "--model", self.write("model.json", TINY_MODEL), "--workload",
                            self.write("workload.json", TINY_WORKLOAD), "--chip", "H200", "--nodes", "0",
                            "--nic", "-1", "--top", "0", "--output", "json", expect=3)
        error = json.loads(done.stderr)["error"]
        for flag in ("--nodes = 0; ", "--nic = -1; ", "--top = 0; "):
            self.assertIn(flag, error["message"])
        self.assertLessEqual({"cluster.pools[0].node_count", "plan_count"},
                             {field["field"] for field in error["fields"]})

    def test_explain_takes_the_flags_too(self):
        done = self.run_cli("explain", "--model", self.write("model.json", TINY_MODEL), "--workload",
                            self.write("workload.json", TINY_WORKLOAD), "--chip", "H200", "--nodes", "1")
        self.assertIn("8 devices", done.stdout)


class LocalTest(ClusterFolder):
    def test_no_accelerator_is_said_in_one_sentence(self):
        self.put_tools()
        self.assertEqual(
            self.cluster_mistakes("--cluster", "local"),
            {"cluster": "local; no accelerator was found on this machine (not installed: nvidia-smi, "
                        f"rocm-smi, npu-smi, lspci); {ADVICE}"})

    def test_a_tool_describes_the_node(self):
        self.put_tools(nvidia_smi="NVIDIA H200, Disabled, 700.00\n" * 8)
        answer, done = self.tune("--cluster", "local", "--nodes", "2")
        self.assertIn("nvidia-smi found 8 x NVIDIA H200 on this machine.", done.stderr)
        plan = answer["plans"][0]["plan"]
        self.assertEqual(
            plan["tensor_parallel"] * plan["pipeline_parallel"] * plan["context_parallel"] * plan["data_parallel"],
            16)


class KubernetesTest(ClusterFolder):
    def test_kubectl_describes_the_nodes(self):
        self.put_tools(kubectl=json.dumps({"items": [NODE, NODE]}))
        _, done = self.tune("--cluster", "kubernetes")
        self.assertIn("Kubernetes has 2 usable nodes of 8 x NVIDIA-H100-80GB-HBM3.", done.stderr)

    def test_a_slice_is_refused(self):
        sliced = json.loads(json.dumps(NODE))
        sliced["metadata"]["labels"]["nvidia.com/gpu.product"] += "-MIG-1g.10gb"
        self.put_tools(kubectl=json.dumps({"items": [sliced]}))
        mistakes = self.cluster_mistakes("--cluster", "kubernetes")
        self.assertIn("is a MIG slice (1g.10gb)", mistakes["cluster.pools[0].chip"])


class SlurmTest(ClusterFolder):
    """Asks the daemons of a real Slurm."""

    def setUp(self):
        super().setUp()
        self.assertIn("SLURM_CONF", os.environ)

    def test_an_ambiguous_type_is_completed_by_a_flag(self):
        mistakes = self.cluster_mistakes("--cluster", "slurm")
        self.assertIn("h100; names several chips: ", mistakes["cluster.pools[0].chip"])
        _, done = self.tune("--cluster", "slurm", "--chip", "nvidia-h100-sxm5-80gb")
        self.assertIn("Slurm has 5 nodes of 8 x h100.", done.stderr)

    def test_nodes_that_are_drained_are_left_out(self):
        subprocess.run(["scontrol", "update", "nodename=n5", "state=drain", "reason=test"], check=True)
        self.addCleanup(subprocess.run, ["scontrol", "update", "nodename=n5", "state=resume"], check=True)
        _, done = self.tune("--cluster", "slurm:debug", "--chip", "nvidia-h100-sxm5-80gb")
        self.assertIn("Slurm has 4 nodes of 8 x h100 in partition debug.", done.stderr)
        self.assertIn("Left out, since no job can start there: n5 (IDLE+DRAIN).", done.stderr)

    def test_an_unknown_partition_is_named(self):
        self.assertEqual(self.cluster_mistakes("--cluster", "slurm:none"),
                         {"cluster": "slurm:none; partition none has no node on which jobs can run"})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
