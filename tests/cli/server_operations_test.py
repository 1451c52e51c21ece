"""Tests what an operator sees of meshwrightd, and how it takes signals:
server_operations_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import threading
import unittest
import urllib.error
import urllib.request

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "events"))
from wait_for import wait_until  # noqa: E402

from programs import LLAMA, MESHWRIGHTD, TINY_CLUSTER, TINY_MODEL, TINY_WORKLOAD, Folder  # noqa: E402

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="[^"\\]*",?)*)\})? (\S+)')
HELP = re.compile(r"# HELP ([a-z_]+) \S.*")
TYPE = re.compile(r"# TYPE ([a-z_]+) (counter|gauge|histogram)")


def parse(text):
    """Reads the text format of Prometheus strictly: returns the samples by name and labels."""
    samples, kinds = {}, {}
    for line in text.splitlines():
        if HELP.fullmatch(line):
            continue
        if kind := TYPE.fullmatch(line):
            assert kind.group(1) not in kinds, line
            kinds[kind.group(1)] = kind.group(2)
            continue
        name, labels, value = SAMPLE.fullmatch(line).groups()
        family = name if name in kinds else re.sub("_(bucket|sum|count)$", "", name)
        assert kinds[family] == "histogram" or name == family, line
        assert (kinds[family] == "counter") == name.endswith("_total"), line
        key = (name, *sorted(re.findall(r'([a-z]+)="([^"]*)"', labels or "")))
        assert key not in samples, line
        samples[key] = float(value)
    return samples


class ServerOperationsTest(Folder):
    def start(self, *flags, prefix=()):
        """Starts a server, and collects its log."""
        server = subprocess.Popen(
            [*prefix, MESHWRIGHTD, "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--db",
             str(self.folder / "server.db"), *flags],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.server, self.log = server, []
        reader = threading.Thread(target=lambda: self.log.extend(server.stderr))
        reader.start()

        def stop():
            server.kill()
            server.wait()
            reader.join()
            server.stdout.close()
            server.stderr.close()
        self.addCleanup(stop)
        self.address = re.fullmatch(r"listening on (\S+)\n", server.stdout.readline()).group(1)
        self.http = server.stdout.readline().split()[-1] if "--http" in flags else None
        self.metrics = server.stdout.readline().split()[-1]
        self.assertTrue(self.metrics.endswith("/metrics"), self.metrics)

    def read(self, token=None):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        with urllib.request.urlopen(urllib.request.Request(self.metrics, headers=headers), timeout=60) as answer:
            self.assertEqual(answer.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
            return parse(answer.read().decode())

    def value(self, name, token=None, **labels):
        return self.read(token).get((name, *sorted(labels.items())), 0)

    def logged(self, *parts):
        return [line for line in list(self.log) if all(part in line for part in parts)]

    def recommend(self, http):
        """Asks a question over HTTP; returns the source of the answer."""
        asked = {"question": {"model": TINY_MODEL, "workload": TINY_WORKLOAD, "cluster": TINY_CLUSTER}}
        with urllib.request.urlopen(urllib.request.Request(
                http + "v1/plans:recommend", json.dumps(asked).encode(),
                headers={"Content-Type": "application/json"}), timeout=60) as answer:
            return json.load(answer)["source"]

    def test_answers_count_by_their_source(self):
        self.start("--http", "127.0.0.1:0")
        counts = [[self.value("meshwright_answers_total", source=source) for source in ("model", "cache")]]
        for source in ("model", "cache", "cache"):
            self.assertEqual(self.recommend(self.http), source)
            counts.append([self.value("meshwright_answers_total", source=source) for source in ("model", "cache")])
        self.assertEqual(counts, [[0, 0], [1, 0], [1, 1], [1, 2]])
        self.assertEqual(self.value("meshwright_answer_duration_seconds_count", source="cache"), 2)
        self.assertGreater(self.value("meshwright_answer_cache_bytes"), 0)
        # The dashboard's listener has the same page.
        with urllib.request.urlopen(self.http + "metrics", timeout=60) as answer:
            self.assertIn("meshwright_answers_total", answer.read().decode())

    def test_calls_move_the_counters(self):
        self.start("--log-level", "debug")
        before = self.read()
        self.assertEqual(before[("meshwright_answers_total", ("source", "model"))], 0)
        self.assertEqual(before[("meshwright_serving",)], 1)
        self.run_cli("study", "list", "--server", self.address)
        self.run_cli("study", "show", "no-study", "--server", self.address, expect=5)
        self.run_cli("tune", *self.question(), "--server", self.address)
        after = self.read()

        def calls(method, code):
            return after.get(("meshwright_calls_total", ("code", code), ("method", method), ("protocol", "grpc"),
                              ("role", "none")), 0)
        self.assertEqual(calls("ListStudies", "OK"), 1)
        self.assertEqual(calls("GetStudy", "NOT_FOUND"), 1)
        self.assertEqual(calls("CreateStudy", "OK"), 1)
        listed = ("method", "ListStudies"), ("role", "none")
        self.assertEqual(after[("meshwright_call_duration_seconds_count", *listed)], 1)
        # The buckets count upwards to all calls.
        buckets = [(float(key[1][1]), value) for key, value in after.items()
                   if key[0] == "meshwright_call_duration_seconds_bucket" and key[2:] == listed]
        self.assertEqual(sorted(buckets), buckets)
        self.assertEqual([value for _, value in buckets], sorted(value for _, value in buckets))
        self.assertEqual(buckets[-1], (float("inf"), 1))
        # Studies are stored, so the store has grown and was written.
        self.assertGreater(after[("meshwright_store_write_duration_seconds_count",)], 0)
        self.assertGreater(after[("meshwright_store_size_bytes",)], before[("meshwright_store_size_bytes",)])
        self.assertGreater(after[("meshwright_store_free_bytes",)], 0)
        self.assertGreater(after[("process_resident_memory_bytes",)], 1 << 20)
        self.assertGreater(after[("process_open_fds",)], 5)
        # A client's texts are no labels.
        self.assertFalse([key for key in after if any("no-study" in label[1] for label in key[1:])])
        # Each call has a line, with the study that it is about.
        self.assertTrue(self.logged("method=ListStudies", "code=OK", " ms=", "peer=ipv4:127.0.0.1:"))
        self.assertTrue(self.logged("method=GetStudy", "code=NOT_FOUND", "reason=UNKNOWN_STUDY", "study=no-study"))
        created = self.logged("method=CreateStudy", "code=OK")
        self.assertRegex(created[0], r"study=study-[0-9a-f]+")

    def test_reports_move_the_ratio_of_their_chip(self):
        self.start()
        answer = json.loads(self.run_cli("tune", *self.question(), "--output", "json",
                                         "--server", self.address).stdout)
        expected = answer["plans"][0]["estimate"]["step_time_seconds"]
        report = ["job", "report", "--study", answer["study_id"], "--outcome", "ok", "--step-time",
                  str(1.2 * expected), "--request-id", "once", "--server", self.address]
        for _ in range(2):  # the second one repeats the first, so it is not another run
            self.run_cli(*report)
        self.run_cli("job", "report", "--study", answer["study_id"], "--outcome", "oom", "--server", self.address)
        chip = {"chip": TINY_CLUSTER["pools"][0]["chip"]}
        self.assertEqual(self.value("meshwright_measured_ratio_count", **chip), 1)
        self.assertAlmostEqual(self.value("meshwright_measured_ratio_sum", **chip), 1.2, places=4)

    def test_callers_are_told_apart_by_role_and_name(self):
        digest = hashlib.sha256(b"secret").hexdigest()
        file = self.write("callers", f"ci submitter sha256:{digest}\n")
        self.start("--log-level", "debug", "--callers", file)
        token = ["--token-file", self.write("token", "secret")]
        self.run_cli("study", "list", "--server", self.address, *token)
        self.run_cli("study", "list", "--server", self.address, expect=8)
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.read()
        self.assertEqual(refused.exception.code, 401)
        labels = {"method": "ListStudies", "protocol": "grpc"}
        self.assertEqual(self.value("meshwright_calls_total", "secret", code="OK", role="submitter", **labels), 1)
        self.assertEqual(
            self.value("meshwright_calls_total", "secret", code="UNAUTHENTICATED", role="none", **labels), 1)
        self.assertTrue(self.logged("method=ListStudies", "code=OK", "caller=ci role=submitter"))
        self.assertTrue(self.logged("method=ListStudies", "code=UNAUTHENTICATED", "peer=ipv4:"))

    def health(self, service=""):
        """Returns what the health service says: 1 is SERVING, 2 NOT_SERVING."""
        with grpc.insecure_channel(self.address) as channel:
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            answer = check(b"\x0a" + bytes([len(service)]) + service.encode(), timeout=60)
        return answer[1]

    def wait_for_health(self, state):
        self.assertTrue(wait_until(lambda: self.health() == state and self.value("meshwright_serving") == 2 - state))
        self.assertEqual(self.health("meshwright.v1.TuningService"), state)

    def test_a_store_that_is_moved_away_and_back(self):
        self.start()
        store, away = self.folder / "server.db", self.folder / "away.db"
        self.wait_for_health(1)
        for take in (lambda: store.rename(away),
                     lambda: (store.rename(away), store.write_text("another file"))):
            self.log.clear()
            take()
            self.wait_for_health(2)
            errors = self.run_cli("tune", *self.question(), "--server", self.address, expect=8).stderr
            self.assertIn("server.db' was ", errors)
            away.rename(store)
            self.wait_for_health(1)
            self.run_cli("tune", *self.question(), "--server", self.address)
            self.assertEqual(len(self.logged("event=store_bad", "reason=STORE_LOST")), 1, self.log)
            self.assertEqual(len(self.logged("event=store_well")), 1, self.log)

    def test_a_store_that_is_deleted_or_emptied(self):
        self.start()
        os.truncate(self.folder / "server.db", 0)
        self.wait_for_health(2)
        self.server.terminate()
        self.assertEqual(self.server.wait(60), 0)
        (self.folder / "server.db").unlink()
        self.start()
        (self.folder / "server.db-wal").unlink()
        self.wait_for_health(2)
        self.run_cli("tune", *self.question(), "--server", self.address, expect=8)

    def test_a_file_system_that_is_nearly_full(self):
        self.start("--min-free-mib", str(1 << 30))  # a pebibyte
        self.wait_for_health(2)
        self.assertEqual(len(self.logged("event=store_bad", "reason=STORE_NEARLY_FULL", "--min-free-mib")), 1)
        # The store is not lost, so it takes what there is room for.
        self.run_cli("tune", *self.question(), "--server", self.address)

    def test_a_file_system_that_gets_full_and_empty_again(self):
        # The server alone sees this file system, which has 80 MiB.
        prefix = ["unshare", "--map-root-user", "--mount", "sh", "-c",
                  f'mount -t tmpfs -o size=80m tmpfs {self.folder} && exec "$0" "$@"']
        if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this machine allows no file system of one's own")
        self.start("--min-free-mib", "40", prefix=prefix)
        self.wait_for_health(1)
        fill = pathlib.Path(f"/proc/{self.server.pid}/root{self.folder}/fill")
        fill.write_bytes(bytes(60 << 20))
        self.wait_for_health(2)
        self.assertLess(self.value("meshwright_store_free_bytes"), 20 << 20)
        fill.unlink()
        self.wait_for_health(1)
        self.assertEqual(len(self.logged("event=store_bad", "reason=STORE_NEARLY_FULL")), 1)
        self.assertEqual(len(self.logged("event=store_well")), 1)

    def ticks(self):
        """Returns the processor time that the server has used."""
        fields = pathlib.Path(f"/proc/{self.server.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def test_a_request_over_http_is_answered_before_the_end(self):
        self.start("--http", "127.0.0.1:0", "--log-level", "debug", "--drain-seconds", "600")
        files = {name: json.loads((LLAMA / f"{name}.json").read_text()) for name in ("workload", "cluster")}
        model = {**TINY_MODEL, "layer_count": 80, "hidden_size": 8192, "ffn_hidden_size": 28672,
                 "attention_head_count": 64}
        asked = {"question": {"model": model, **files}, "device_counts": [16, 32, 64, 128, 256]}
        answers = []

        def ask():
            with urllib.request.urlopen(urllib.request.Request(
                    self.http + "v1/plans:sweep", json.dumps(asked).encode(),
                    headers={"Content-Type": "application/json"}), timeout=600) as answer:
                answers.append(json.load(answer))
        idle = self.ticks()
        asker = threading.Thread(target=ask)
        asker.start()
        self.assertTrue(wait_until(lambda: self.ticks() > idle + 20))  # it works on the request
        self.server.terminate()
        self.assertTrue(wait_until(lambda: self.logged("event=stopping")))
        asker.join()
        self.assertEqual(self.server.wait(60), 0)
        self.assertTrue(answers[0])

    def copies(self):
        return sorted(path.name for path in (self.folder / "copies").iterdir())

    def test_the_store_is_copied_and_old_copies_go(self):
        (self.folder / "copies").mkdir()
        old = [f"server-2026010{day}T000000Z.db" for day in range(1, 5)]
        others = ["other-20260101T000000Z.db", "server-20260101T000000Z.db.txt", "server-20261301T000000Z.db"]
        for name in old + others:
            (self.folder / "copies" / name).write_text("")
        self.start("--backup-folder", str(self.folder / "copies"), "--backup-count", "3")
        self.assertTrue(wait_until(lambda: len(self.logged("event=backup_deleted")) == 2))
        made, = self.logged("event=backup_made")
        name = re.search(r"file=(server-\d{8}T\d{6}Z\.db)", made).group(1)
        self.assertEqual(self.copies(), sorted([*others, *old[2:], name]))
        taken = self.value("meshwright_backup_timestamp_seconds")
        self.assertAlmostEqual(taken, (self.folder / "copies" / name).stat().st_mtime, delta=60)
        restored = shutil.copy(self.folder / "copies" / name, self.folder / "restored.db")
        self.run_cli("history", "list", "--db", str(restored))
        self.assertEqual((self.folder / "copies" / name).stat().st_mode & 0o777, 0o600)

        # The next copy is due a day after this one, also for another server.
        self.server.terminate()
        self.assertEqual(self.server.wait(60), 0)
        self.start("--backup-folder", str(self.folder / "copies"), "--backup-count", "1")
        self.assertTrue(wait_until(lambda: len(self.logged("event=backup_deleted")) == 2))
        self.assertEqual(self.copies(), sorted([*others, name]))
        self.assertEqual(self.value("meshwright_backup_timestamp_seconds"), taken)
        self.assertFalse(self.logged("event=backup_made"))

    def test_a_folder_for_copies_that_is_not_there(self):
        for flags, code, words in [
                (["--backup-folder", str(self.folder / "none")], 5, "does not exist"),
                (["--backup-folder", __file__], 3, "is not a folder"),
                (["--backup-folder", str(self.folder), "--db", "postgresql://nobody@/none"], 2, "pg_dump"),
                (["--backup-hours", "0"], 2, "--backup-hours")]:
            run = subprocess.run([MESHWRIGHTD, "--listen", "127.0.0.1:0", "--db", str(self.folder / "s.db"), *flags]
                                 if "--db" not in flags else [MESHWRIGHTD, "--listen", "127.0.0.1:0", *flags],
                                 capture_output=True, text=True, check=False, timeout=60)
            self.assertEqual(run.returncode, code, run.stderr)
            self.assertIn(words, run.stderr)

    def test_a_call_that_runs_is_answered_before_the_end(self):
        self.start("--log-level", "debug", "--drain-seconds", "600")
        question = ["--model", LLAMA / "config.json", "--workload", LLAMA / "workload.json",
                    "--cluster", LLAMA / "cluster.json", "--server", self.address, "--deadline", 600]
        answers = []
        sweep = threading.Thread(target=lambda: answers.append(
            self.run_cli("tune", *map(str, question), "--devices", "16..256", "--output", "json").stdout))
        sweep.start()
        self.assertTrue(wait_until(lambda: self.value("meshwright_pool_calls", pool="heavy", state="running") == 1))
        self.server.terminate()
        self.assertTrue(wait_until(lambda: self.logged("event=stopping")))
        self.run_cli("explain", *map(str, question), expect=8)
        sweep.join()
        self.assertEqual(self.server.wait(60), 0)
        self.assertTrue(json.loads(answers[0]))
        self.assertTrue(wait_until(lambda: self.logged("event=stopped")))
        self.assertTrue(self.logged("method=Sweep", "code=OK"))

    def test_the_service_manager_is_told(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(self.folder / "notify"))
            manager.settimeout(60)
            self.start(prefix=["env", f"NOTIFY_SOCKET={self.folder}/notify"])
            self.assertEqual(manager.recv(100), b"READY=1")
            self.server.terminate()
            self.assertEqual(manager.recv(100), b"STOPPING=1")

    def test_a_call_that_takes_too_long_is_cancelled(self):
        self.start("--drain-seconds", "0")
        question = ["--model", LLAMA / "config.json", "--workload", LLAMA / "workload.json",
                    "--cluster", LLAMA / "cluster.json", "--server", self.address]
        sweep = threading.Thread(target=lambda: self.run_cli(
            "tune", *map(str, question), "--devices", "16..8192", expect=8))
        sweep.start()
        self.assertTrue(wait_until(lambda: self.value("meshwright_pool_calls", pool="heavy", state="running") == 1))
        self.server.terminate()
        self.assertEqual(self.server.wait(60), 0)
        sweep.join()
        self.assertTrue(wait_until(lambda: self.logged("event=stopped")))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
