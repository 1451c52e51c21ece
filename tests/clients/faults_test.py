"""Tests the Python client when the server is away, late, full, restarted, or does not know the caller:

    faults_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES PACKAGE
"""

import asyncio
import os
import signal
import socket
import sys
import threading
import unittest

import servers
from programs import LLAMA, TINY_PLAN
from servers import OWN_PLAN, QUESTION, FakeServer, details

import grpc
import meshwright
from meshwright import v1

Code = grpc.StatusCode


class RestartTest(servers.Servers):
    """A study that runs until it is cancelled, so that the server can be killed in its middle."""

    def setUp(self):
        super().setUp()
        self.address = f"unix:{self.folder}/socket"
        self.server = self.start(listen=self.address)[0]
        question = meshwright.question(LLAMA, LLAMA / "workload.json", LLAMA / "cluster.json", strategy="random",
                                       evaluation_limit=2**31 - 1)
        with meshwright.Client(self.address) as client:
            self.study = client.create_study(question).id

    def kill_and_restart(self):
        self.server.kill()
        self.end(self.server)
        self.server = self.start(listen=self.address)[0]

    def test_a_watch_goes_on(self):
        with meshwright.Client(self.address) as client:
            seen, restarted_at = [], None
            for event in client.watch_study(self.study):
                seen.append(event)
                if event.state == "running" and restarted_at is None:
                    self.kill_and_restart()
                    restarted_at = event.revision
                elif event.state == "running":
                    client.cancel_study(self.study)
            self.assertEqual(seen[-1].state, "cancelled")
            self.assertGreater(seen[-1].revision, restarted_at)
            self.assertEqual([event.revision for event in seen], list(range(1, len(seen) + 1)))
            self.assertEqual(list(client.watch_study(self.study)), seen)

    def test_a_watch_goes_on_in_asyncio(self):
        async def watch():
            async with meshwright.AsyncClient(self.address) as client:
                seen, restarted = [], False
                async for event in client.watch_study(self.study):
                    seen.append(event)
                    if event.state == "running" and not restarted:
                        await asyncio.get_running_loop().run_in_executor(None, self.kill_and_restart)
                        restarted = True
                    elif event.state == "running":
                        await client.cancel_study(self.study)
                self.assertEqual([event.revision for event in seen], list(range(1, len(seen) + 1)))
                self.assertEqual(seen[-1].state, "cancelled")
        asyncio.run(watch())

    def test_a_watch_ends_when_the_server_stays_away(self):
        with meshwright.Client(self.address) as client:
            events = client.watch_study(self.study, patience=0.2)
            next(events)
            self.server.kill()
            with self.assertRaises(meshwright.Unavailable):
                list(events)

    def test_a_watch_has_a_deadline(self):
        with meshwright.Client(self.address) as client:
            with self.assertRaises(meshwright.DeadlineExceeded):
                list(client.watch_study(self.study, deadline=0.3))

    def test_a_watch_that_is_left_ends_its_call(self):
        with meshwright.Client(self.address) as client:
            for _ in range(300):  # a connection may have 128 open watches
                events = client.watch_study(self.study)
                next(events)
                events.close()

    def test_a_stopped_process(self):
        """The server accepts connections and answers nothing: only the deadline ends the call."""
        self.server.send_signal(signal.SIGSTOP)
        with meshwright.Client(self.address) as client:
            decision = client.recommend_or(OWN_PLAN, QUESTION, deadline=0.3)
            self.assertEqual((decision.is_own, decision.reason), (True, "DEADLINE_EXCEEDED"))
            self.server.send_signal(signal.SIGCONT)
            self.assertFalse(client.recommend_or(OWN_PLAN, QUESTION, deadline=60).is_own)

    def test_a_long_lived_client_finds_the_restarted_server(self):
        with meshwright.Client(self.address) as client:
            client.get_server_info()
            self.kill_and_restart()
            self.assertTrue(client.get_server_info().version)


class FailOpenTest(unittest.TestCase):
    def own(self, decision, reason):
        self.assertEqual((decision.is_own, decision.reason), (True, reason))
        self.assertEqual(decision.plan, v1.Plan(tensor_parallel=8))
        self.assertEqual((decision.study_id, decision.flags()), ("", None))

    def both(self, address, reason, deadline=60.0, **access):
        """Asks by both clients, which must answer with the caller's own plan."""
        with meshwright.Client(address, **access) as client, self.assertLogs("meshwright", "WARNING") as logged:
            self.own(client.recommend_or(OWN_PLAN, QUESTION, deadline=deadline), reason)
        self.assertIn(f"launching with the job's own plan: {reason}", logged.output[0])

        async def ask():
            async with meshwright.AsyncClient(address, **access) as client:
                return await client.recommend_or(OWN_PLAN, QUESTION, deadline=deadline)
        self.own(asyncio.run(ask()), reason)

    def test_nothing_listens(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # nobody else can get the port
            self.both(f"127.0.0.1:{taken.getsockname()[1]}", "UNAVAILABLE")
        self.both("unix:/absent/socket", "UNAVAILABLE")

    def test_a_listener_that_says_nothing(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            self.both(address, "DEADLINE_EXCEEDED", deadline=0.3)
            with self.assertRaises(meshwright.DeadlineExceeded):
                meshwright.Client(address, deadline=0.3).get_server_info()
            with self.assertRaises(meshwright.DeadlineExceeded):
                list(meshwright.Client(address).watch_study("s", deadline=0.3))

    def test_a_server_that_never_answers(self):
        release = threading.Event()

        def answer(method, request, context):
            if method == "Recommend":
                release.wait()
            return getattr(v1, f"{method}Response")()
        fake = FakeServer(answer)
        self.addCleanup(fake.stop)
        self.addCleanup(release.set)
        with meshwright.Client(fake.address) as client:
            client.get_server_info()  # it is connected
            self.own(client.recommend_or(OWN_PLAN, QUESTION, deadline=0.3), "DEADLINE_EXCEEDED")

    def test_each_error(self):
        """An error is the question's only if a Meshwright server says so with such a code."""
        error = {}

        def answer(method, request, context):
            context.set_trailing_metadata(error["details"])
            context.abort(error["code"], "said")
        fake = FakeServer(answer)
        self.addCleanup(fake.stop)
        mistakes = {(Code.INVALID_ARGUMENT, "INVALID_FIELDS"), (Code.NOT_FOUND, "UNKNOWN_CHIP"),
                    (Code.FAILED_PRECONDITION, "NO_FEASIBLE_PLAN"), (Code.FAILED_PRECONDITION, "CHIP_NOT_MODELLED"),
                    (Code.UNIMPLEMENTED, "MIXED_CLUSTER_SEARCH")}
        others = {(code, "SERVER_BUSY") for code in Code if code is not Code.OK} - {
            (code, "SERVER_BUSY") for code in (Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.UNIMPLEMENTED,
                                               Code.ALREADY_EXISTS)}
        with meshwright.Client(fake.address) as client:
            for code, reason in sorted(mistakes | others, key=str):
                with self.subTest(code=code, reason=reason):
                    error.update(code=code, details=details(code, reason, [("a.b", "3; must be 4")]))
                    if (code, reason) not in mistakes:
                        self.own(client.recommend_or(OWN_PLAN, QUESTION, deadline=60), reason)
                        continue
                    with self.assertRaises(meshwright.MeshwrightError) as caught:
                        client.recommend_or(OWN_PLAN, QUESTION, deadline=60)
                    self.assertEqual((caught.exception.code, caught.exception.reason), (code, reason))
                    self.assertEqual([str(one) for one in caught.exception.fields], ["a.b = 3; must be 4"])
                    self.assertEqual(caught.exception.metadata, {"study_id": "s"})
                    self.own(client.recommend_or(OWN_PLAN, QUESTION, deadline=60, raises_mistakes=False), reason)
            for code in (Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.UNIMPLEMENTED):  # a proxy's, say
                error.update(code=code, details=())
                self.own(client.recommend_or(OWN_PLAN, QUESTION, deadline=60), code.name)
            error.update(code=Code.INVALID_ARGUMENT, details=(("grpc-status-details-bin", b"\xff\xff"),))
            self.own(client.recommend_or(OWN_PLAN, QUESTION, deadline=60), "INVALID_ARGUMENT")

    def test_an_answer_without_a_plan(self):
        fake = FakeServer(lambda *_: v1.RecommendResponse())
        self.addCleanup(fake.stop)
        self.both(fake.address, "NO_PLAN")

    def test_the_caller_s_own_files(self):
        self.both("127.0.0.1:1", "UNREADABLE_FILE", token_file="/absent/token")
        self.both("127.0.0.1:1", "UNREADABLE_FILE", ca="/absent/ca.pem")
        self.both("127.0.0.1:1", "INVALID_TOKEN", token="two\nlines")

    def test_a_job_without_a_stated_plan(self):
        decision = meshwright.Client("unix:/absent/socket").recommend_or(None, QUESTION, deadline=60)
        self.assertEqual((decision.is_own, decision.plan, decision.reason), (True, None, "UNAVAILABLE"))
        self.assertIsNone(decision.to_dict()["plan"])

    def test_the_own_plan_comes_back_whatever_the_question_is(self):
        with meshwright.Client("unix:/absent/socket") as client:
            for question in ({"modell": 1}, {"model": {"model_type": object()}}, "none", None):
                self.own(client.recommend_or(OWN_PLAN, question, raises_mistakes=False), "INVALID_FIELDS")

    def test_a_mistake_in_the_own_plan(self):
        with self.assertRaises(meshwright.InvalidRequest) as caught:
            meshwright.Client("unix:/absent/socket").recommend_or({"tensor": 8}, QUESTION)
        self.assertEqual([one.field for one in caught.exception.fields], ["own_plan.tensor"])


class RetryTest(unittest.TestCase):
    """A server that is starting for the first two attempts of each call."""

    def setUp(self):
        def answer(method, request, context):
            if self.fake.count(method) <= 2:
                context.set_trailing_metadata(details(Code.UNAVAILABLE, "SERVER_STARTING"))
                context.abort(Code.UNAVAILABLE, "starting")
            return getattr(v1, f"{method}Response")()
        self.fake = FakeServer(answer)
        self.addCleanup(self.fake.stop)
        self.client = meshwright.Client(self.fake.address)
        self.addCleanup(self.client.close)

    def test_calls_that_can_be_repeated(self):
        self.client.get_study("s")
        self.client.recommend(QUESTION)
        self.client.create_study(QUESTION)
        self.client.report_job({"study_id": "s", "outcome": "oom"})
        self.client.update_study("s", note="x")
        self.client.compare_plans(QUESTION, TINY_PLAN, OWN_PLAN)
        list(self.client.list_trials("s"))
        for method in ("GetStudy", "Recommend", "CreateStudy", "UpdateStudy", "CreateJobReport", "ComparePlans",
                       "ListTrials"):
            self.assertEqual(self.fake.count(method), 3, method)
        for method in ("CreateStudy", "UpdateStudy", "CreateJobReport"):  # the server knows the repeated ones by their id
            ids = {request.request_id for name, request in self.fake.requests if name == method}
            self.assertEqual(len(ids), 1)
            self.assertNotEqual(ids, {""})

    def test_calls_that_cannot(self):
        with self.assertRaises(meshwright.Unavailable) as caught:
            self.client.call("HistoryService", "BackupStore", v1.BackupStoreRequest(), v1.BackupStoreResponse)
        self.assertEqual(caught.exception.reason, "SERVER_STARTING")
        self.assertEqual(self.fake.count("BackupStore"), 1)

    def test_asyncio(self):
        async def get():
            async with meshwright.AsyncClient(self.fake.address) as client:
                await client.get_study("s")
        asyncio.run(get())
        self.assertEqual(self.fake.count("GetStudy"), 3)


class AccessTest(servers.Servers):
    def test_tokens(self):
        callers = self.callers("reader viewer", "ci submitter")
        address = self.start("--callers", callers)[1]
        with meshwright.Client(address) as stranger, meshwright.Client(address, token="token-of-reader") as reader:
            for client, reason in ((stranger, "UNAUTHENTICATED"), (reader, "ROLE_TOO_LOW")):
                with self.assertRaises(meshwright.MeshwrightError) as caught:
                    client.create_study(QUESTION)
                self.assertEqual((caught.exception.reason, caught.exception.is_mistake), (reason, False))
                decision = client.recommend_or(OWN_PLAN, QUESTION, deadline=60)
                self.assertEqual((decision.is_own, decision.reason), (True, reason))
            self.assertFalse(reader.recommend_or(OWN_PLAN, QUESTION, is_unrecorded=True, deadline=60).is_own)
        # A token can be changed under a client that lives on.
        file = self.write("token", "token-of-reader\n")
        with meshwright.Client(address, token_file=file) as client:
            with self.assertRaises(meshwright.MeshwrightError):
                client.create_study(QUESTION)
            self.write("token", "token-of-ci\n")
            study = client.create_study(QUESTION)
            self.assertEqual([event.state for event in client.watch_study(study.id)][-1], "succeeded")

    def test_tls(self):
        authority = str(self.folder / "authority")
        self.certificate("authority")
        key, certificate = self.certificate("server", authority)
        robot_key, robot = self.certificate("robot", authority, has_address=False)
        self.certificate("stranger")
        callers = self.callers("robot operator cert:robot", "ci submitter")
        address = self.start("--callers", callers, "--tls-cert", certificate, "--tls-key", key, "--tls-client-ca",
                             f"{authority}.pem")[1]
        ca = f"{authority}.pem"
        for access in ({"cert": robot, "key": robot_key}, {"token": "token-of-ci"},
                       {"cert": robot, "key": robot_key, "token": "token-of-ci"}):
            with meshwright.Client(address, ca=ca, **access) as client:
                self.assertTrue(client.create_study(QUESTION).id)

        async def ask():
            async with meshwright.AsyncClient(address, ca=ca, cert=robot, key=robot_key) as client:
                return await client.recommend_or(OWN_PLAN, QUESTION, deadline=60)
        self.assertFalse(asyncio.run(ask()).is_own)
        # In clear, without a proof, with another authority, and with a file that has no certificate.
        for access, reason in (({"token": "token-of-ci"}, "UNAVAILABLE"), ({"ca": ca}, "UNAUTHENTICATED"),
                               ({"ca": str(self.folder / "stranger.pem"), "token": "token-of-ci"}, "UNAVAILABLE"),
                               ({"tls": True, "token": "token-of-ci"}, "UNAVAILABLE"),
                               ({"ca": self.write("no.pem", "nonsense"), "token": "token-of-ci"}, "UNAVAILABLE")):
            with self.subTest(access=sorted(access)), meshwright.Client(address, **access) as client:
                self.assertEqual(client.recommend_or(OWN_PLAN, QUESTION, deadline=60).reason, reason)

    def test_the_server_s_own_user_over_a_unix_socket(self):
        address = self.start("--callers", self.callers("ci viewer"), listen=f"unix:{self.folder}/socket")[1]
        with meshwright.Client(address) as client:
            self.assertTrue(client.create_study(QUESTION).id)


if __name__ == "__main__":
    os.environ["GRPC_VERBOSITY"] = "NONE"  # handshakes that fail are expected
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
