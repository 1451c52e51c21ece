"""Tests train_step.py as jobs run it: its lines, its exit codes, and what it refuses."""

import contextlib
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

WORKLOADS = pathlib.Path(__file__).resolve().parents[2] / "workloads"
sys.path.insert(0, str(WORKLOADS))

import train_step
from measure import cgroup
import train.case
from train import launcher
from train.case import check_case, read_case
from train.exit_codes import ExitCode
from train.fields import InvalidCase

MODEL = {"layer_count": 2, "hidden_size": 32, "ffn_hidden_size": 64, "attention_head_count": 4,
         "kv_head_count": 2, "vocab_size": 256}
WORKLOAD = {"sequence_length": 16, "global_batch_size": 4, "precision": "fp32"}


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="meshwright-step-")
        self.addCleanup(self.folder.cleanup)

    def write(self, document, name="case.json"):
        path = pathlib.Path(self.folder.name) / name
        path.write_text(json.dumps(document))
        return str(path)

    def case(self, plan=None, **model):
        return self.write({"model": {**MODEL, **model}, "workload": WORKLOAD, "plan": plan or {}})

    def start(self, *arguments, **environment):
        clean = {name: value for name, value in os.environ.items()
                 if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK") and not name.startswith("SLURM_")}
        return subprocess.Popen(
            [sys.executable, WORKLOADS / "train_step.py", *arguments], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env={**clean, "OMP_NUM_THREADS": "1", **environment})

    def end(self, process, code):
        out, errors = process.communicate(timeout=300)
        self.assertEqual(process.returncode, code, out + errors)
        return out

    def run_step(self, *arguments, code=ExitCode.DONE, **environment):
        out = self.end(self.start(*arguments, **environment), code)
        return [json.loads(line) for line in out.splitlines()]

    def failures(self, lines):
        return {(line["class"], line["rank"]) for line in lines if line["event"] == "failure"}

    def test_lines_of_a_run(self):
        lines = self.run_step("--case", self.case({"zero_stage": 1}), "--processes", "2", "--steps", "2",
                              "--warmup", "1")
        self.assertEqual([line["event"] for line in lines],
                         ["environment", "step", "step", "memory", "step", "memory", "result"])
        first, memory, result = lines[0], lines[5], lines[6]
        steps = [line for line in lines if line["event"] == "step"]
        self.assertLessEqual(lines[3]["peak_memory_bytes_by_rank"][0], memory["peak_memory_bytes_by_rank"][0])
        self.assertEqual((first["meshwright"], first["backend"], first["ranks"]), (1, "gloo", 2))
        self.assertEqual(first["plan"]["data_parallel"], 2)
        self.assertIn("reduce_scatter", [one["lacks"] for one in first["fallbacks"]])
        self.assertEqual([step["is_warmup"] for step in steps], [True, False, False])
        self.assertEqual(len(memory["peak_memory_bytes_by_rank"]), 2)
        self.assertEqual(memory["source"], "resident_set_growth")
        self.assertEqual(result["steps"], 2)
        # 4 sequences of 16 tokens on 2 devices.
        self.assertAlmostEqual(result["tokens_per_second_per_device"], 32 / result["step_time_seconds"])

    def test_the_harness_measures_it_with_all_defaults(self):
        clean = {name: value for name, value in os.environ.items() if "RANK" not in name and "SLURM" not in name}
        harness = subprocess.run(
            [sys.executable, WORKLOADS / "harness.py", "--attempt", "a", "--token", "1", "--folder", self.folder.name,
             "--", sys.executable, WORKLOADS / "train_step.py", "--case", self.case()],
            env={**clean, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, timeout=300, check=False)
        result = json.loads(pathlib.Path(self.folder.name, "a.result.json").read_text())
        self.assertEqual((harness.returncode, result["class"]), (0, "ok"), result["message"])
        self.assertEqual(result["warmup_steps"], 5)
        self.assertGreaterEqual(result["steps"], 10)

    def test_a_rank_of_slurm_and_lines_that_are_not_ours(self):
        plan = self.write({"tensor_parallel": 1}, "plan.json")
        question = self.write({"model": MODEL, "workload": WORKLOAD}, "question.json")
        out = self.end(self.start("--question", question, "--plan", plan, "--steps", "2",
                                  SLURM_PROCID="0", SLURM_NTASKS="1", SLURM_LOCALID="0",
                                  MESHWRIGHT_TROUBLE="garbage:0:1"), ExitCode.DONE)
        self.assertIn("garbage {", out)
        self.assertIn('"result"', out)

    def test_peak_memory_is_that_of_the_model(self):
        # There are 16 bytes per weight: itself, its gradient and two moments. The weights are
        # vocabulary x hidden in and out; in each of 2 layers 3 x hidden x ffn, and hidden^2 for
        # queries, for 2 of 4 heads of keys and values, and for the output.
        weights = 2 * 256 * 768 + 2 * 3 * 768 * 3072 + 2 * 3 * 768**2
        for model, low, high in ((dict(hidden_size=768, ffn_hidden_size=3072), 16 * weights, 24 * weights),
                                 ({}, 0, 40e6)):  # tiny; below the libraries' share of about 240 MB
            lines = self.run_step("--case", self.case(**model), "--steps", "2", "--warmup", "1")
            peak, = next(line for line in lines if line["event"] == "memory")["peak_memory_bytes_by_rank"]
            self.assertTrue(low < peak < high, (low, peak, high))

    def test_memory(self):
        # The vocabulary alone has 2 x 256 x 4096 x 4 bytes; gradients and Adam make it 5 times
        # that.
        lines = self.run_step("--case", self.case(hidden_size=4096), "--memory-limit", "30000000",
                              code=ExitCode.OUT_OF_DEVICE_MEMORY)
        self.assertEqual(self.failures(lines), {("OUT_OF_DEVICE_MEMORY", 0)})

    def test_crash_of_a_rank_ends_the_others(self):
        lines = self.run_step("--case", self.case(), "--processes", "2", code=ExitCode.CRASH,
                              MESHWRIGHT_TROUBLE="crash:1:1")
        self.assertLessEqual({("CRASH", 1)}, self.failures(lines))

    def test_processes_under_other_launchers(self):
        slurm = {"SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
        task = {**slurm, "SLURM_NTASKS": "4", "SLURM_STEP_ID": "0"}
        for environment, processes, ranks, starts in (
                # The cases are a script of sbatch, for one task and for four, and a task of srun.
                (slurm, 2, 2, True), ({**slurm, "SLURM_NTASKS": "4"}, 4, 4, True), (task, 4, 4, False),
                (task, None, 4, False), ({**slurm, "SLURM_STEP_ID": "0"}, 2, 2, True), ({}, None, 1, False),
                ({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", **slurm}, 2, 2, False)):
            with self.subTest(environment=environment, processes=processes), \
                    mock.patch.dict(os.environ, environment, clear=True):
                rank, starts_others = train_step.place(processes)
                self.assertEqual((rank.world_size, starts_others), (ranks, starts))
        # The variables are one that was left set, and those of a batch script.
        lines = self.run_step("--case", self.case(), "--processes", "2", "--steps", "1", "--warmup", "0",
                              WORLD_SIZE="4", **slurm)
        self.assertEqual((lines[0]["ranks"], lines[-1]["event"]), (2, "result"))

    def test_wrong_use_names_all_that_is_wrong(self):
        case = self.case()
        task = {"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_STEP_ID": "0"}
        torchrun = {"RANK": "0", "WORLD_SIZE": "4", "LOCAL_RANK": "0"}
        for arguments, environment, said in (
                (["--memory-limit", "0", "--timeout", "nan", "--steps", "0", "--seed", "-1"], {},
                 ["--memory-limit is 0", "--timeout is nan", "--steps is 0", "--seed is -1"]),
                (["--memory-limit", "-5"], {}, ["--memory-limit is -5; must be 1 to"]),
                (["--timeout", "inf", "--plan", case], {}, ["--timeout is inf", "--case holds the plan"]),
                (["--processes", "2"], task, ["--processes 2: this is one of 4 ranks"]),
                (["--processes", "2"], torchrun, ["--processes 2: this is one of 4 ranks"]),
                ([], {**torchrun, "RANK": "4"}, ["RANK='4', WORLD_SIZE='4'"]),
                ([], {**torchrun, "RANK": "x"}, ["RANK='x'"])):
            with self.subTest(arguments=arguments, environment=environment), \
                    mock.patch.dict(os.environ, environment, clear=True), \
                    contextlib.redirect_stderr(io.StringIO()) as errors:
                with self.assertRaises(SystemExit) as ended:
                    train_step.main(["--case", case, *arguments])
                self.assertEqual(ended.exception.code, 2)
                for text in said:
                    self.assertIn(text, errors.getvalue().splitlines()[-1])

    def test_a_python_without_pytorch_is_one_line(self):
        done = subprocess.run([sys.executable, "-S", WORKLOADS / "train_step.py", "--case", self.case()], text=True,
                              capture_output=True, timeout=300)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertRegex(done.stderr, r"^train_step: needs PyTorch, which this Python .* No module named 'torch'; .*\n$")

    def test_question_and_plan_hold_what_they_are_called(self):
        question = {"model": MODEL, "workload": WORKLOAD}
        for first, second, said in (
                (question, {"plan": {}, "model": {**MODEL, "layer_count": 4}, "workload": WORKLOAD},
                 ["holds model", "holds workload"]),
                ({**question, "plan": {}}, {}, ["question.json: holds a plan, and so does --plan"]),
                (question, None, ["plan: must be a JSON object"])):
            with self.assertRaises(InvalidCase) as refused:
                read_case(self.write(first, "question.json"), self.write(second, "plan.json"), 1)
            for text in said:
                self.assertIn(text, str(refused.exception))

    def test_hang(self):
        lines = self.run_step("--case", self.case(), "--processes", "2", "--timeout", "8",
                              code=ExitCode.COLLECTIVE_TIMEOUT, MESHWRIGHT_TROUBLE="hang:1:1")
        self.assertIn("COLLECTIVE_TIMEOUT", {name for name, _ in self.failures(lines)})

    def test_numbers_that_are_none(self):
        lines = self.run_step("--case", self.case(), code=ExitCode.NUMERIC, MESHWRIGHT_TROUBLE="nan:0:1")
        self.assertEqual([line["event"] for line in lines], ["environment", "step", "failure"])

    def test_bad_input(self):
        line, = self.run_step("--case", self.case({"tensor_parallel": 0, "zero_stage": 4}, hidden_size="x"),
                              code=ExitCode.INVALID_CONFIG)
        self.assertEqual((line["event"], line["class"]), ("failure", "INVALID_CONFIG"))
        self.assertEqual({one["field"] for one in line["fields"]},
                         {"model.hidden_size", "plan.tensor_parallel", "plan.zero_stage"})
        line, = self.run_step("--case", "/no/such/file", code=ExitCode.INVALID_CONFIG)
        self.assertIn("/no/such/file", line["message"])
        line, = self.run_step("--case", self.case({"data_parallel": 3}), "--processes", "2",
                              code=ExitCode.INVALID_CONFIG)
        self.assertIn("plan.data_parallel", line["message"])


class LauncherTest(unittest.TestCase):
    """Tests the launcher with ranks that do not load PyTorch, which start at once."""

    def launch(self, rank_program):
        program = f"import sys; sys.path.insert(0, {str(WORKLOADS)!r}); from train.launcher import launch; " \
                  f"sys.exit(launch([sys.executable, '-c', {rank_program!r}], 3))"
        return subprocess.Popen([sys.executable, "-c", program], text=True, stdout=subprocess.PIPE)

    def ends_with(self, rank_program):
        process = self.launch("import os, sys, time; rank = int(os.environ['RANK']); " + rank_program)
        out, _ = process.communicate(timeout=300)
        lines = [json.loads(line) for line in out.splitlines()]
        return process.returncode, [(line["class"], line["rank"]) for line in lines]

    def test_the_code_that_tells_most(self):
        self.assertEqual(self.ends_with("sys.exit((80, 83, 81)[rank])"), (83, []))
        self.assertEqual(self.ends_with("sys.exit(0)"), (0, []))

    def test_who_ends_without_a_word_is_spoken_for(self):
        self.assertEqual(self.ends_with("sys.exit((80, 80, 3)[rank])"), (82, [("CRASH", 2)]))
        self.assertEqual(self.ends_with("os.kill(os.getpid(), 9) if rank == 1 else sys.exit(80)"),
                         (82, [("CRASH", 1)]))

    def test_who_was_ended_for_memory(self):
        """Tests which rank was ended for memory, by the count of the group's own folder, not of the
        root."""
        with tempfile.TemporaryDirectory() as root:
            own = pathlib.Path(root, "job", "step")
            own.mkdir(parents=True)
            pathlib.Path(root, "memory.events").write_text("oom 0\noom_kill 0\n")
            (own / "memory.events").write_text("oom 1\noom_kill 3\n")
            groups = pathlib.Path(root, "groups")
            for path, count in (("/job/step", 3), ("/seen/by/the/host", 0)):
                groups.write_text(f"0::{path}\n")
                with mock.patch.multiple(cgroup, _OWN_GROUPS=str(groups), _ROOT=root), \
                        mock.patch.object(launcher, "failure"):
                    self.assertEqual(cgroup.oom_kill_count(), count)
                    self.assertEqual(launcher._code(1, -signal.SIGKILL, 2),
                                     ExitCode.OUT_OF_HOST_MEMORY if count > 2 else ExitCode.CRASH)

    def test_told_to_end(self):
        process = self.launch("import os, signal; os.write(1, b'%d\\n' % os.getpid()); signal.pause()")
        ranks = [int(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=300)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        for rank in ranks:
            self.assertRaises(ProcessLookupError, os.kill, rank, 0)


class RefusalTest(unittest.TestCase):
    """Tests that each refusal names the field. (path, changes of model, workload, plan, ranks)"""

    MOE = {"expert_count": 4, "experts_per_token": 2, "expert_ffn_hidden_size": 32}
    CASES = [
        ("model.mla", {"mla": {"kv_lora_rank": 8}}, {}, {}, 1),
        ("model.hidden_size", {"hidden_size": 3}, {}, {}, 1),  # with 4 heads
        ("model.mtp_layer_count", {"mtp_layer_count": 1}, {}, {}, 1),
        ("model.sliding_window", {"sliding_window": 8}, {}, {}, 1),
        ("model.moe.expert_counts", {"moe": {**MOE, "expert_counts": 4}}, {}, {}, 1),
        ("model.moe.imbalance_ratio", {"moe": {**MOE, "imbalance_ratio": 1.5}}, {}, {}, 1),
        ("workload.precision", {}, {"precision": "fp8"}, {}, 1),
        ("workload.optimizer", {}, {"optimizer": "sgd"}, {}, 1),
        ("workload.dropout_ratio", {}, {"dropout_ratio": 0.1}, {}, 1),
        ("workload.overlap.gradients", {}, {"overlap": {"gradients": True}}, {}, 1),
        ("plan.schedule", {}, {}, {"schedule": "zb_h1"}, 1),
        ("plan.schedule", {}, {}, {"schedule": "dualpipe"}, 1),
        ("plan.context_parallel_kind", {}, {}, {"context_parallel_kind": "hybrid"}, 1),
        ("plan.optimizer_offload_ratio", {}, {}, {"optimizer_offload_ratio": 0.5}, 1),
        ("plan.activation_offload_ratio", {}, {}, {"activation_offload_ratio": 0.5}, 1),
        ("plan.whole_weights_ratio", {}, {}, {"zero_stage": 2, "whole_weights_ratio": 0.5}, 1),
        ("plan.whole_weights_ratio", {}, {}, {"zero_stage": 3, "whole_weights_ratio": 1.5}, 1),
        ("plan.stages", {}, {}, {"stages": [{"pool": "a"}]}, 1),
        ("plan.recompute.modules", {}, {},
         {"recompute": {"granularity": "selective", "modules": ["mlp"]}}, 1),
        ("model.qk_norm", {"qk_norm": True}, {}, {}, 1),
        ("model.layers", {"layers": [{"count": 2, "mixer": "state_space"}]}, {}, {}, 1),
        ("model.rotary_base", {"rotary_base": 0}, {}, {}, 1),
        ("plan.tensor_paralel", {}, {}, {"tensor_paralel": 2}, 2),
        ("plan.tensor_parallel", {}, {}, {"tensor_parallel": 4}, 4),  # with 2 key-value heads
        ("plan.sequence_parallel", {}, {}, {"sequence_parallel": True}, 1),
        ("plan.sequence_parallel", {"moe": MOE}, {}, {"tensor_parallel": 2}, 2),
        ("plan.expert_parallel", {}, {}, {"expert_parallel": 2}, 2),
        ("plan.expert_parallel", {"moe": MOE}, {}, {"expert_parallel": 4}, 2),
        ("plan.micro_batch_size", {}, {}, {"micro_batch_size": 3}, 1),
        ("plan.layers_per_stage", {}, {}, {"pipeline_parallel": 2, "layers_per_stage": [2, 1]}, 2),
        ("plan.virtual_pipeline", {}, {}, {"pipeline_parallel": 2, "schedule": "interleaved_1f1b"}, 2),
        ("plan.pipeline_parallel", {}, {"global_batch_size": 3},
         {"pipeline_parallel": 2, "virtual_pipeline": 2}, 2),
        ("plan.zero_group_size", {}, {}, {"zero_stage": 3, "zero_group_size": 2}, 1),
        ("plan.zero_group_size", {}, {}, {"zero_stage": 0, "zero_group_size": 1}, 1),
        ("plan.recompute.layer_counts", {}, {},
         {"recompute": {"granularity": "full", "layer_counts": [3]}}, 1),
        ("plan.recompute.layer_counts", {}, {}, {"recompute": {"layer_counts": [1]}}, 1),
        ("model.moe.expert_count", {"moe": {"experts_per_token": 1, "expert_ffn_hidden_size": 8}}, {}, {}, 1),
        ("model", {"model_type": "llama"}, {}, {}, 1),
        ("workload.sequence_length", {}, {"sequence_length": 18}, {"context_parallel": 2}, 2),
    ]

    def refused(self, document, ranks=1):
        with self.assertRaises(InvalidCase) as caught:
            check_case(document, ranks)
        return [field for field, _ in caught.exception.wrong]

    def test_what_it_cannot_run(self):
        for field, model, workload, plan, ranks in self.CASES:
            with self.subTest(field=field, plan=plan):
                document = {"model": {**MODEL, **model}, "workload": {**WORKLOAD, **workload}, "plan": plan}
                self.assertEqual(self.refused(document, ranks), [field])

    def test_it_knows_every_field_of_a_question(self):
        schema = (pathlib.Path(__file__).parents[2] / "proto/meshwright/v1/problem.proto").read_text()
        tables = {"Model": train.case.MODEL, "Moe": train.case.MOE, "Workload": train.case.WORKLOAD,
                  "MoeTraining": train.case.MOE_TRAINING, "Overlap": train.case.OVERLAP, "Plan": train.case.PLAN,
                  "RecomputePlan": train.case.RECOMPUTE}
        for message, table in tables.items():
            body = re.search(rf"^message {message} {{$(.*?)^}}$", schema, re.DOTALL | re.MULTILINE)[1]
            fields = re.findall(r"^ +(?:optional|repeated) [\w.]+ (\w+) = ", body, re.MULTILINE)
            self.assertEqual(set(fields), set(table), message)

    def test_the_cluster_must_have_as_many_devices_as_ranks(self):
        cluster = {"pools": [{"chip": "any", "node_count": 2, "devices_per_node": 8}]}
        self.assertEqual(self.refused({"model": MODEL, "workload": WORKLOAD, "plan": {}, "cluster": cluster}),
                         ["cluster.pools"])

    def test_no_case_at_all(self):
        self.assertEqual(self.refused([]), ["case"])
        self.assertEqual(self.refused({"model": 3, "workload": WORKLOAD})[0], "model")


if __name__ == "__main__":
    unittest.main()
