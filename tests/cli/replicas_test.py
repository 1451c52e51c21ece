"""Tests servers that share one store on a real PostgreSQL:
replicas_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES local PYTHON [KILLS] [TEST...]

The environment's MESHWRIGHT_POSTGRES names the file that scripts/postgres_up.sh wrote. Only the servers are
killed, as often as KILLS says (bench/postgres_kills.sh says 200)."""

import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import unittest
import urllib.error
import urllib.request

import grpc

from jobs_folder import CLUSTER, MODEL, WORKLOAD, JobsFolder, wait_until
from programs import MESHWRIGHTD, TINY_CLUSTER, TINY_MODEL, TINY_WORKLOAD, ask

KILLS = int(sys.argv.pop(6)) if len(sys.argv) > 6 and sys.argv[6].isdigit() else 4
LEASE_SECONDS = 2
QUESTION = {"model": TINY_MODEL, "workload": TINY_WORKLOAD, "cluster": TINY_CLUSTER}
# Four plans, measured by a table.
REPLAY = {"launcher": "replay", "max_trials": 10, "replay": [
    {"plan": {"tensor_parallel": 8}, "outcome": "ok", "step_time_seconds": 4.0},
    {"plan": {"tensor_parallel": 2}, "outcome": "ok", "step_time_seconds": 2.0},
    {"plan": {"tensor_parallel": 1}, "outcome": "oom"},
    {"plan": {"tensor_parallel": 4}, "outcome": "crash"}]}
ENDED = ("succeeded", "failed", "cancelled")


class Replica:
    """One of the servers."""

    def __init__(self, test, store, *flags):
        self.process = subprocess.Popen(
            [MESHWRIGHTD, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-writes", "--db", store,
             "--study-lease-seconds", str(LEASE_SECONDS), "--drain-seconds", "1", *flags],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.log = []
        self.reader = threading.Thread(target=lambda: self.log.extend(self.process.stderr))
        self.reader.start()
        test.addCleanup(self.end)
        line = self.process.stdout.readline()
        test.assertTrue(line, self.log)
        self.address = re.fullmatch(r"listening on (\S+)\n", line).group(1)
        self.http = self.process.stdout.readline().split()[-1]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.send_signal(signal.SIGCONT)
        self.kill()
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()

    def logged(self, *words):
        return [line for line in list(self.log) if all(word in line for word in words)]

    def health(self):
        """Returns what the health service says: 1 is SERVING, 2 NOT_SERVING."""
        with grpc.insecure_channel(self.address) as channel:
            return channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=60)[1]

    def state(self, study):
        return ask(self.http, f"v1/studies/{study}")["study"]["state"]

    def events(self, study, after=0, seconds=120):
        """Yields the revisions and the events of a study until its end or until the connection breaks, or is
        quiet for so long."""
        request = urllib.request.Request(f"{self.http}v1/studies/{study}:watch",
                                         headers={"Last-Event-ID": str(after)} if after else {})
        with urllib.request.urlopen(request, timeout=seconds) as lines:
            revision = None
            for line in lines:
                if line.startswith(b"event: end"):
                    yield None, "end"
                    return
                if line.startswith(b"id: "):
                    revision = int(line[4:])
                if line.startswith(b"data: ") and revision is not None:
                    yield revision, json.loads(line[6:])
                    revision = None


class Link:
    """A way to PostgreSQL through a socket of its own, which can be cut."""

    def __init__(self, test, folder, target):
        self.folder = folder / "link"
        self.folder.mkdir()
        self.target = f"{target}/.s.PGSQL.5432"
        self.pairs = []
        self.is_cut = False
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.folder / ".s.PGSQL.5432"))
        self.listener.listen(64)
        self.thread = threading.Thread(target=self.accept)
        self.thread.start()
        test.addCleanup(self.close)

    def accept(self):
        while True:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            if self.is_cut:
                near.close()
                continue
            far = socket.socket(socket.AF_UNIX)
            far.connect(self.target)
            self.pairs += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self.copy, args=(source, sink)).start()

    @staticmethod
    def copy(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        self.is_cut = True
        for end in self.pairs:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def mend(self):
        self.is_cut = False

    def close(self):
        self.cut()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
        for end in self.pairs:
            end.close()


class ReplicasFolder(JobsFolder):
    count = 0

    def setUp(self):
        super().setUp()
        self.server = pathlib.Path(os.environ["MESHWRIGHT_POSTGRES"]).read_text().strip()
        ReplicasFolder.count += 1
        schema = f"replicas_{os.getpid()}_{ReplicasFolder.count}"
        self.rows(f"CREATE SCHEMA {schema}", self.server)
        self.addCleanup(self.rows, f"DROP SCHEMA {schema} CASCADE", self.server)
        self.options = f"&options=-csearch_path%3D{schema}"
        self.store = self.server + self.options

    def rows(self, query, address=None):
        """Returns the first column of a query of the store."""
        done = subprocess.run(["psql", "--quiet", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1",
                               address or self.store, "--command", "SET client_min_messages = error", "--command",
                               query], check=True, capture_output=True, text=True)
        return done.stdout.split()

    def start(self, *flags, store=None):
        return Replica(self, store or self.store, "--allow-jobs", "--insecure-jobs", *flags)

    def wait_for(self, what, why=""):
        self.assertTrue(wait_until(what), why or "does not come")

    def create_jobs(self, replica, trials=2):
        """Creates a study whose trials are jobs, and returns its id as soon as one of them runs there."""
        question = {"model": MODEL, "workload": WORKLOAD, "cluster": CLUSTER,
                    "trials": {"launcher": "local", "job": self.job(), "max_trials": trials, "stop_within_ratio": 0}}
        study = ask(replica.http, "v1/studies", {"question": question})["study"]["id"]
        self.wait_for(lambda: self.rows("SELECT 1 FROM attempts WHERE state = 'running'"))
        return study

    def states_of(self, study):
        return self.rows(f"SELECT encode(payload, 'escape') FROM events WHERE study_id = '{study}' AND kind = 'state' "
                         "ORDER BY revision")

    def check_once(self):
        """Everything that is in the store is there once."""
        self.assertEqual(self.rows("SELECT study_id FROM events GROUP BY 1 HAVING max(revision) <> count(*)"), [])
        self.assertEqual(self.rows("SELECT study_id FROM events WHERE kind = 'state' AND encode(payload, 'escape') IN "
                                   "('succeeded', 'failed', 'cancelled') GROUP BY 1 HAVING count(*) > 1"), [])
        self.assertEqual(self.rows("SELECT study_id FROM trials GROUP BY 1 HAVING max(number) <> count(*)"), [])
        self.assertEqual(self.rows("SELECT study_id FROM measurements GROUP BY study_id, plan_digest HAVING "
                                   "count(*) > 1"), [])
        self.assertEqual(self.rows("SELECT study_id FROM trials WHERE state = 'ended' AND outcome <> 'cancelled' AND "
                                   "measurement_sequence IS NULL"), [])


class ReplicasTest(ReplicasFolder):

    def test_servers_share_every_study(self):
        first, second = self.start(), self.start()
        study = ask(first.http, "v1/studies", {"question": QUESTION, "request_id": "r"})["study"]["id"]
        here, there = list(first.events(study)), list(second.events(study))
        self.assertEqual(here, there)
        self.assertEqual([revision for revision, _ in there], [*range(1, len(there)), None])
        self.assertEqual(list(second.events(study, after=2)), there[2:])
        again = ask(second.http, "v1/studies", {"question": QUESTION, "request_id": "r"})["study"]["id"]
        self.assertEqual(again, study)
        for replica in (first, second):
            self.assertEqual([one["id"] for one in ask(replica.http, "v1/studies")["studies"]], [study])
            self.assertEqual(replica.health(), 1)
        # One can be changed at either, and one that does not wait for the other has its answer.
        self.run_cli("study", "update", study, "--note", "as launched", "--server", second.address)
        self.assertEqual(ask(first.http, f"v1/studies/{study}")["study"]["note"], "as launched")
        self.run_cli("study", "delete", study, "--server", second.address)
        self.run_cli("study", "show", study, "--server", first.address, expect=5)

    def test_jobs_of_a_study_are_cancelled_at_the_other_server(self):
        self.let_jobs_wait()
        first = self.start()
        study = self.create_jobs(first)
        second = self.start()
        self.assertEqual(ask(second.http, f"v1/studies/{study}:cancel", {})["study"]["state"], "cancelling")
        self.assertEqual([event for event in second.events(study)][-1][1], "end")
        self.assertEqual(first.state(study), "cancelled")
        self.assertEqual(self.states_of(study), ["queued", "running", "cancelling", "cancelled"])

    def test_a_paused_study_goes_on_at_another_server(self):
        self.let_jobs_wait()
        first = self.start()
        study = self.create_jobs(first)
        second = self.start()
        ask(second.http, f"v1/studies/{study}:pause", {})
        self.wait_for(lambda: second.state(study) == "paused")
        first.kill()
        ask(second.http, f"v1/studies/{study}:resume", {})
        self.wait_for(lambda: second.state(study) == "running")
        self.let_go()
        self.assertEqual([event for event in second.events(study)][-1][1], "end")
        self.assertEqual(self.rows("SELECT outcome FROM trials ORDER BY number"), ["ok", "ok"])
        self.assertEqual(set(self.began().values()), {1}, "an attempt began twice")
        self.check_once()

    def test_a_killed_server_loses_its_study_to_another(self):
        self.let_jobs_wait()
        first = self.start()
        study = self.create_jobs(first)
        second = self.start()
        first.kill()
        self.let_go()
        events = list(second.events(study))
        self.assertEqual(events[-1][1], "end")
        self.assertEqual([revision for revision, _ in events], [*range(1, len(events)), None])
        self.assertEqual(self.states_of(study), ["queued", "running", "interrupted", "queued", "running", "succeeded"])
        # The job of the first went on, and the second found it.
        self.assertEqual(set(self.began().values()), {1}, "an attempt began twice")
        self.assertEqual(self.rows("SELECT outcome FROM trials ORDER BY number"), ["ok", "ok"])
        self.assertEqual(self.rows("SELECT count(*) FROM attempts"), ["2"])
        self.check_once()

    def test_a_server_that_was_stopped_past_its_lease_stores_nothing_more(self):
        self.let_jobs_wait()
        first = self.start()
        study = self.create_jobs(first)
        second = self.start()
        first.process.send_signal(signal.SIGSTOP)
        self.wait_for(lambda: self.states_of(study)[2:] == ["interrupted", "queued", "running"])
        token = self.rows(f"SELECT lease_token FROM studies WHERE id = '{study}'")
        first.process.send_signal(signal.SIGCONT)
        self.wait_for(lambda: first.logged("event=store_failed", f"study={study}", "reason=STALE_LEASE"))
        self.let_go()
        self.assertEqual([event for event in second.events(study)][-1][1], "end")
        self.assertEqual(self.rows(f"SELECT lease_token FROM studies WHERE id = '{study}'"), token)
        self.assertEqual(self.states_of(study), ["queued", "running", "interrupted", "queued", "running", "succeeded"])
        self.assertEqual(set(self.began().values()), {1}, "an attempt began twice")
        self.check_once()
        # The first goes on with other studies.
        self.wait_for(lambda: first.health() == 1)
        second.kill()
        study = ask(first.http, "v1/studies", {"question": QUESTION})["study"]["id"]
        self.assertEqual([event for event in first.events(study)][-1][1], "end")
        self.assertEqual(first.state(study), "succeeded")

    def test_a_server_without_its_store_does_not_serve(self):
        self.let_jobs_wait()
        link = Link(self, self.folder, self.server.split("host=")[1])
        first = self.start(store=self.store.replace(self.server, f"{self.server.split('host=')[0]}host={link.folder}"))
        study = self.create_jobs(first)
        second = self.start()
        self.assertEqual(first.health(), 1)
        link.cut()
        self.wait_for(lambda: first.health() == 2)
        self.assertEqual(second.health(), 1)
        self.wait_for(lambda: self.states_of(study)[2:] == ["interrupted", "queued", "running"])
        self.wait_for(lambda: first.logged("event=store_bad", "reason=LEASE_LOST"))
        link.mend()
        self.wait_for(lambda: first.health() == 1)
        self.let_go()
        self.assertEqual([event for event in second.events(study)][-1][1], "end")
        self.assertEqual(first.state(study), "succeeded")
        self.assertEqual(set(self.began().values()), {1}, "an attempt began twice")
        self.check_once()


class Load:
    """Clients that ask two servers for everything, and ask the other one when one does not answer."""

    def __init__(self, replicas, seed):
        self.replicas = replicas
        self.moments = random.Random(seed)
        self.lock = threading.Lock()
        self.created = {}  # the body of each request that was answered, and the study that it made
        self.changed = {}  # the path, the body and the answer of each other request
        self.watched = 0
        self.mistakes = []
        self.is_over = False
        self.threads = [threading.Thread(target=self.run, args=(work,)) for work in
                        (self.create, self.create, self.change, self.watch)]
        for thread in self.threads:
            thread.start()

    def run(self, work):
        while not self.is_over:
            try:
                work()
            except (OSError, urllib.error.URLError, json.JSONDecodeError):
                pass  # the server was killed
            except Exception as mistake:  # pylint: disable=broad-except
                self.mistakes.append(repr(mistake))
                return

    def any(self, ask_one):
        """Asks one server after the other until one answers; returns None for a refusal."""
        while not self.is_over:
            replica = self.moments.choice(self.replicas)
            try:
                return ask_one(replica)
            except urllib.error.HTTPError as error:
                if error.code < 500:
                    return None
            except (OSError, urllib.error.URLError, json.JSONDecodeError):
                pass
        return None

    def create(self):
        with self.lock:
            name = f"create-{self.moments.randrange(10**12)}"
            question = {**QUESTION, "trials": REPLAY} if self.moments.random() < 0.5 else QUESTION
        body = {"request_id": name, "question": question}
        answer = self.any(lambda replica: ask(replica.http, "v1/studies", body))
        if answer is not None:
            with self.lock:
                self.created[name] = (body, answer["study"]["id"])

    def change(self):
        with self.lock:
            if not self.created:
                return
            study = self.moments.choice(list(self.created.values())[-20:])[1]
            verb = self.moments.choice(("cancel", "pause", "resume", "resume"))
            body = {"request_id": f"{verb}-{self.moments.randrange(10**12)}"}
        path = f"v1/studies/{study}:{verb}"
        answer = self.any(lambda replica: ask(replica.http, path, body))
        if answer is not None:
            with self.lock:
                self.changed[body["request_id"]] = (path, body, answer)

    def watch(self):
        """Follows a study, and goes on at another server from the last revision."""
        with self.lock:
            if not self.created:
                return
            study = self.moments.choice(list(self.created.values())[-5:])[1]
        last = 0
        for _ in range(20):  # it may be paused
            if self.is_over:
                return
            try:
                for revision, _ in self.moments.choice(self.replicas).events(study, last, seconds=0.5):
                    if revision is None:
                        self.watched += 1
                        return
                    if revision != last + 1:
                        self.mistakes.append(f"{study}: revision {revision} after {last}")
                    last = revision
            except (OSError, urllib.error.URLError, json.JSONDecodeError):
                pass

    def answered(self):
        return len(self.created) + len(self.changed)

    def end(self):
        self.is_over = True
        for thread in self.threads:
            thread.join()


class KillsTest(ReplicasFolder):

    def test_killed_replicas_lose_nothing(self):
        """One of two servers is killed at some moment, again and again, and is started again."""
        moments = random.Random(20261129)
        replicas = [self.start(), self.start()]
        load = Load(replicas, 1)
        self.addCleanup(load.end)
        for _ in range(KILLS):
            goal = load.answered() + moments.randrange(1, 8)
            self.wait_for(lambda goal=goal: load.answered() >= goal or load.mistakes)
            killed = moments.randrange(2)
            replicas[killed].kill()
            replicas[killed] = self.start()
        load.end()
        self.assertEqual(load.mistakes, [])
        studies = [study for _, study in load.created.values()]
        self.assertEqual(len(set(studies)), len(studies))
        for path, body, answer in load.changed.values():
            self.assertEqual(ask(replicas[0].http, path, body), answer, path)
        for body, study in load.created.values():
            self.assertEqual(ask(moments.choice(replicas).http, "v1/studies", body)["study"]["id"], study)
        for study in self.rows("SELECT id FROM studies WHERE state = 'paused'"):
            ask(replicas[1].http, f"v1/studies/{study}:resume", {})
        living = "SELECT id FROM studies WHERE state NOT IN ('succeeded', 'failed', 'cancelled')"
        self.assertTrue(wait_until(lambda: not self.rows(living), seconds=600), self.rows(living))
        self.assertEqual(self.rows("SELECT id FROM studies WHERE lease_expires_ms IS NOT NULL"), [])
        stored = set(self.rows("SELECT id FROM studies"))
        self.assertLessEqual(set(studies), stored)
        self.assertLessEqual(len(stored) - len(studies), len(load.threads))  # the last requests have no answer
        # A study fails if its server was killed three times while it ran it.
        self.assertEqual(self.rows("SELECT id FROM studies WHERE state = 'failed' AND error_message NOT LIKE "
                                   "'%was killed 3 times%'"), [])
        self.assertEqual(self.rows("SELECT id FROM studies JOIN (SELECT study_id, count(*) AS n FROM trials WHERE "
                                   "state = 'ended' GROUP BY 1) AS t ON study_id = id WHERE state = 'succeeded' "
                                   "AND n <> 4"), [])
        self.check_once()
        taken_over = self.rows("SELECT count(DISTINCT study_id) FROM events WHERE kind = 'state' AND "
                               "encode(payload, 'escape') = 'interrupted'")[0]
        print(f"{KILLS} kills: {len(studies)} studies created, {len(load.changed)} changes answered, "
              f"{load.watched} studies watched to their end, {taken_over} studies taken over", flush=True)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[6:]], verbosity=2)
