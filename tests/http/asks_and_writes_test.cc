// Questions and changes over a socket, on a real engine with its store in a file.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "meshwright/v1/catalog.pb.h"
#include "meshwright/v1/placement.pb.h"
#include "meshwright/v1/service.pb.h"
#include "proto/json/json.h"
#include "recorder/recorder.h"
#include "search_space/base/status.h"
#include "server/changes/study_changes.h"
#include "server/convert/catalog_wire.h"
#include "server/convert/convert.h"
#include "server/engine/engine.h"
#include "server/http/ask_api.h"
#include "server/http/dashboard.h"
#include "server/http/http_message.h"
#include "server/http/http_server.h"
#include "server/http/read_face.h"
#include "server/tuner/question/knowledge.h"
#include "tests/events/wait_for.h"
#include "tests/files/temporary_folder.h"
#include "tests/http/connection.h"
#include "tests/rpc/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

const Knowledge& KnownChips() {
  static const Knowledge knowledge = *LoadKnowledge("");
  return knowledge;
}

struct Answer {
  int status = 0;
  std::string header = {};
  std::string body = {};
};

absl::StatusOr<StudyAnswer> StayQueued(const ResolvedStudy& /*asked*/,
                                       const Knowledge& /*knowledge*/,
                                       const StudyControl& control) {
  std::promise<void> cancelled;
  const std::stop_callback wait(control.cancel, [&cancelled] { cancelled.set_value(); });
  cancelled.get_future().get();
  return absl::CancelledError("cancelled");
}

enum class Studies { kStayQueued, kAreRun };

// A server of a store in a file. Studies are created and stay queued, unless they are to be run.
class HttpFace {
 public:
  explicit HttpFace(bool allows_writes, Studies studies = Studies::kStayQueued) {
    auto recorder = Recorder::Open({.path = folder_.File("history.db")});
    EXPECT_TRUE(recorder.ok()) << recorder.status();
    EngineHooks hooks;
    if (studies == Studies::kStayQueued) hooks.run = StayQueued;
    engine_ = *Engine::Start(*std::move(recorder), KnownChips(), ProtobufCodec(KnownChips()),
                             std::move(hooks));
    std::optional<WriteFace> writes;
    if (allows_writes) {
      writes = WriteFace{.create_study =
                             [this](const auto& request, std::string_view creator) {
                               return CreateStudy(request, creator, KnownChips(), *engine_);
                             },
                         .cancel_study =
                             [this](const v1::CancelStudyRequest& request) {
                               return CancelStudy(request, *engine_);
                             },
                         .pause_study =
                             [this](const v1::PauseStudyRequest& request) {
                               return PauseStudy(request, *engine_);
                             },
                         .resume_study =
                             [this](const v1::ResumeStudyRequest& request) {
                               return ResumeStudy(request, *engine_);
                             },
                         .delete_study =
                             [this](const v1::DeleteStudyRequest& request) {
                               return DeleteStudy(request, *engine_);
                             },
                         .retry_trials =
                             [this](const v1::RetryTrialsRequest& request) {
                               return RetryTrials(request, *engine_);
                             },
                         .update_study =
                             [this](const v1::UpdateStudyRequest& request) {
                               return UpdateStudy(request, engine_->store());
                             }};
    }
    face_.reset(new ReadFace{
        .knowledge = KnownChips(),
        .history = engine_->queries(),
        .feed = {},
        .server_info = [] { return ServerInfo(KnownChips(), 7); },
        .learnt = [this](std::optional<std::int64_t> up_to) { return engine_->History(up_to); },
        .answers = &engine_->answers(),
        .writes = std::move(writes)});
    server_ = *HttpServer::Start({.listen = "127.0.0.1:0"}, DashboardHandler(*face_));
    connection_ = std::make_unique<HttpConnection>(server_->address());
  }

  Answer Ask(const std::string& method, const std::string& target, const std::string& body = "",
             const std::string& fields = "Content-Type: application/json\r\n") {
    connection_->Send(method, target, body, fields);
    const std::string answer = connection_->ReadAnswer();
    const std::size_t end = answer.find("\r\n\r\n");
    return {.status = std::stoi(answer.substr(9, 3)),
            .header = answer.substr(0, end),
            .body = answer.substr(end + 4)};
  }
  Answer Get(const std::string& target) { return Ask("GET", target, "", ""); }
  [[nodiscard]] const ReadFace& face() const { return *face_; }

 private:
  TemporaryFolder folder_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<ReadFace> face_;
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<HttpConnection> connection_;
};

template <typename Message>
Message Parsed(const Answer& answer) {
  Message message;
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_THAT(ParseJson(answer.body, "", message), IsEmpty());
  return message;
}

std::string Json(const google::protobuf::Message& message) { return PrintJson(message, {}); }

std::string RecommendBody(const v1::TuneRequest& question) {
  v1::RecommendRequest request;
  *request.mutable_question() = question;
  return Json(request);
}

TEST(HttpAsksTest, AReadOnlyServerAnswersQuestionsAndKeepsNothing) {
  HttpFace http(false);
  const auto answer = Parsed<v1::RecommendResponse>(
      http.Ask("POST", "/v1/plans:recommend", RecommendBody(SmallQuestion())));
  EXPECT_EQ(answer.study_id(), "");
  ASSERT_EQ(answer.result().plans_size(), 5);
  EXPECT_EQ(answer.source(), "model");
  auto again = Parsed<v1::RecommendResponse>(
      http.Ask("POST", "/v1/plans:recommend", RecommendBody(SmallQuestion())));
  EXPECT_EQ(again.source(), "cache");
  again.set_source(answer.source());
  EXPECT_EQ(Json(again), Json(answer));

  v1::ComparePlansRequest pair;
  *pair.mutable_question() = SmallQuestion();
  *pair.mutable_first_plan() = answer.result().plans(0).plan();
  *pair.mutable_second_plan() = answer.result().plans(1).plan();
  const auto compared =
      Parsed<v1::ComparePlansResponse>(http.Ask("POST", "/v1/plans:compare", Json(pair)));
  EXPECT_EQ(compared.comparison().first().step_time_seconds(),
            answer.result().plans(0).estimate().step_time_seconds());
  EXPECT_TRUE(compared.comparison().has_step_time_ratio_low());

  v1::EvaluatePlansRequest cases;
  v1::EvaluateCase& one = *cases.add_cases();
  *one.mutable_model() = pair.question().model();
  *one.mutable_workload() = pair.question().workload();
  *one.mutable_cluster() = pair.question().cluster();
  *one.mutable_plan() = pair.first_plan();
  const auto evaluated =
      Parsed<v1::EvaluatePlansResponse>(http.Ask("POST", "/v1/plans:evaluate", Json(cases)));
  EXPECT_EQ(evaluated.answers(0).estimate().step_time_seconds(),
            compared.comparison().first().step_time_seconds());

  EXPECT_THAT(http.Get("/v1/studies").body, HasSubstr(R"("studies": [])"));
  EXPECT_THAT(http.Get("/v1/server").body, HasSubstr(R"("allows_http_writes": false)"));
}

TEST(HttpAsksTest, ASweepAsksAboutEverySize) {
  HttpFace http(false);
  v1::SweepRequest request;
  *request.mutable_question() = SmallQuestion();
  const int nodes = request.question().cluster().pools(0).node_count();
  for (const int count : {nodes, 2 * nodes}) request.add_node_counts(count);
  const auto sweep = Parsed<v1::SweepResponse>(http.Ask("POST", "/v1/plans:sweep", Json(request)));
  ASSERT_EQ(sweep.points_size(), 2);
  EXPECT_EQ(sweep.points(1).device_count(), 2 * sweep.points(0).device_count());
  // The question's own size has the fastest plan that the same question has by itself.
  const auto alone = Parsed<v1::RecommendResponse>(
      http.Ask("POST", "/v1/plans:recommend", RecommendBody(SmallQuestion())));
  EXPECT_EQ(sweep.points(0).best().estimate().step_time_seconds(),
            alone.result().model_optimum().estimate().step_time_seconds());
  EXPECT_THAT(http.Get("/v1/studies").body, HasSubstr(R"("studies": [])"));
}

TEST(HttpAsksTest, AllMistakesOfASweepAreNamed) {
  HttpFace http(false);
  v1::SweepRequest request;
  *request.mutable_question() = SmallQuestion();
  request.add_node_counts(0);
  request.add_free_memory_ratios(1.5);
  const Answer refused = http.Ask("POST", "/v1/plans:sweep", Json(request));
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr(R"("field": "node_counts[0]")"));
  EXPECT_THAT(refused.body, HasSubstr(R"("field": "free_memory_ratios[0]")"));
  EXPECT_EQ(
      http.Ask("POST", "/v1/plans:sweep", Json(request), "Content-Type: text/plain\r\n").status,
      415);
}

TEST(HttpAsksTest, JobsArePlacedOnClusters) {
  HttpFace http(false);
  v1::PlaceJobsRequest request;
  for (const char* const name : {"first", "second"}) {
    v1::PlacementJob& job = *request.add_jobs();
    job.set_name(name);
    *job.mutable_model() = SmallQuestion().model();
    *job.mutable_workload() = SmallQuestion().workload();
  }
  request.mutable_jobs(1)->set_weight(2);
  *request.add_clusters() = SmallQuestion().cluster();
  request.mutable_clusters(0)->mutable_pools(0)->set_node_count(1);  // for the heavier job
  const auto placed =
      Parsed<v1::PlaceJobsResponse>(http.Ask("POST", "/v1/jobs:place", Json(request)));
  ASSERT_EQ(placed.placement().jobs_size(), 2);
  EXPECT_EQ(placed.placement().jobs(0).nodes_size(), 0);
  EXPECT_EQ(placed.placement().jobs(1).nodes_size(), 1);
  EXPECT_EQ(placed.placement().objective_value(), 2);
}

TEST(HttpAsksTest, AllMistakesOfAPlacementAreNamed) {
  HttpFace http(false);
  v1::PlaceJobsRequest request;
  request.add_jobs()->set_weight(-1);
  *request.mutable_jobs(0)->mutable_model() = SmallQuestion().model();
  *request.add_clusters() = SmallQuestion().cluster();
  request.mutable_clusters(0)->mutable_pools(0)->set_node_count(0);
  request.set_objective("speed");
  request.set_solver("/bin/sh");
  request.set_solver_seconds(0.5);
  const Answer refused = http.Ask("POST", "/v1/jobs:place", Json(request));
  EXPECT_EQ(refused.status, 400);
  for (const char* const field :
       {"jobs[0].name", "jobs[0].weight", "jobs[0].workload", "clusters[0].pools[0].node_count",
        "objective", "solver", "solver_seconds"}) {
    EXPECT_THAT(refused.body, HasSubstr(R"("field": ")" + std::string(field))) << field;
  }
  request.clear_jobs();
  for (int i = 0; i <= 100; ++i) request.add_jobs();
  EXPECT_THAT(http.Ask("POST", "/v1/jobs:place", Json(request)).body,
              HasSubstr("101 entries; must be a list of 1 to 100"));
}

TEST(HttpAsksTest, AStudysPlanIsTracedOverItsStep) {
  HttpFace http(true, Studies::kAreRun);
  v1::CreateStudyRequest request;
  request.set_study_id("mine");
  *request.mutable_question() = SmallQuestion();
  EXPECT_EQ(http.Ask("POST", "/v1/studies", Json(request)).status, 200);
  v1::GetStudyResponse study;
  ASSERT_TRUE(WaitFor([&] {
    study = Parsed<v1::GetStudyResponse>(http.Get("/v1/studies/mine"));
    return !study.study().end_time().empty();
  }));
  ASSERT_GE(study.result().plans_size(), 1);

  const Answer traced = http.Get("/v1/studies/mine/plans/1:trace");
  ASSERT_EQ(traced.status, 200) << traced.body;
  const nlohmann::json trace = nlohmann::json::parse(traced.body);
  double end_microseconds = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    end_microseconds =
        std::max(end_microseconds, event["ts"].get<double>() + event["dur"].get<double>());
  }
  // The end of the last span is rounded to nanoseconds.
  EXPECT_NEAR(end_microseconds * 1e-6, study.result().plans(0).estimate().step_time_seconds(),
              1e-8);

  const Answer absent = http.Get("/v1/studies/mine/plans/99:trace");
  EXPECT_EQ(absent.status, 404);
  EXPECT_THAT(absent.body, HasSubstr("UNKNOWN_PLAN"));
  EXPECT_THAT(http.Get("/v1/studies/none/plans/1:trace").body, HasSubstr("UNKNOWN_STUDY"));
  const Answer no_rank = http.Get("/v1/studies/mine/plans/first:trace");
  EXPECT_EQ(no_rank.status, 400);
  EXPECT_THAT(no_rank.body, HasSubstr(R"("field": "rank")"));
}

TEST(HttpAsksTest, MistakesAreNamedAndGuarded) {
  HttpFace http(false);
  v1::TuneRequest question = SmallQuestion();
  question.mutable_model()->set_layer_count(0);
  const Answer bad = http.Ask("POST", "/v1/plans:recommend", RecommendBody(question));
  EXPECT_EQ(bad.status, 400);
  EXPECT_THAT(bad.body, HasSubstr(R"("field": "model.layer_count")"));
  // The fields that guard every answer are also on one that comes later.
  EXPECT_THAT(bad.header, HasSubstr("Content-Security-Policy: default-src 'none'"));
  EXPECT_THAT(http.Ask("POST", "/v1/plans:recommend", R"({"qestion": {}})").body,
              HasSubstr("qestion"));
  EXPECT_THAT(http.Ask("POST", "/v1/plans:recommend", "").body, HasSubstr("INVALID_FIELDS"));

  question = SmallQuestion();
  question.mutable_cluster()->mutable_pools(0)->set_devices_per_node(1);
  question.mutable_workload()->set_sequence_length(1'000'000);
  const Answer infeasible = http.Ask("POST", "/v1/plans:recommend", RecommendBody(question));
  EXPECT_EQ(infeasible.status, 400);
  EXPECT_THAT(infeasible.body, HasSubstr(R"("reason": "NO_FEASIBLE_PLAN")"));
  EXPECT_THAT(infeasible.body, HasSubstr(R"(, "infeasible": {"binding_memory_kind": )"));
}

// A page of another site can send these bodies without asking first, but not as JSON.
TEST(HttpAsksTest, OnlyJsonIsTaken) {
  HttpFace http(true);
  const std::string body = RecommendBody(SmallQuestion());
  for (const char* type :
       {"", "Content-Type: text/plain\r\n", "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: application/jsonp\r\n"}) {
    const Answer refused = http.Ask("POST", "/v1/plans:recommend", body, type);
    EXPECT_EQ(refused.status, 415) << type;
    EXPECT_THAT(refused.body, HasSubstr("UNSUPPORTED_MEDIA_TYPE"));
    EXPECT_EQ(http.Ask("POST", "/v1/studies", body, type).status, 415) << type;
  }
  const Answer taken = http.Ask("POST", "/v1/plans:recommend", body,
                                "Content-Type: Application/JSON ; charset=utf-8\r\n");
  EXPECT_EQ(taken.status, 200);
  const Answer foreign =
      http.Ask("POST", "/v1/studies", body,
               "Content-Type: application/json\r\nOrigin: http://evil.example\r\n");
  EXPECT_EQ(foreign.status, 403);
  EXPECT_THAT(foreign.body, HasSubstr("FOREIGN_ORIGIN"));
  // A proxy sends a Host of this machine, and says by which name the browser knows it.
  const std::string proxied =
      "Content-Type: application/json\r\nX-Forwarded-Host: tuning.example\r\nOrigin: https://";
  EXPECT_EQ(http.Ask("POST", "/v1/plans:recommend", body, proxied + "tuning.example\r\n").status,
            200);
  EXPECT_EQ(http.Ask("POST", "/v1/studies", body, proxied + "evil.example\r\n").status, 403);
}

// One question is worked on and eight wait, so that one of ten is refused at once. The others end
// when their readers go away.
TEST(HttpAsksTest, FewQuestionsWait) {
  HttpFace http(false);
  v1::TuneRequest big = BigQuestion();
  big.set_strategy("random");
  big.set_evaluation_limit(1'000'000'000);
  const HttpRequest request = {.method = "POST",
                               .path = "/v1/plans:recommend",
                               .content_type = "application/json",
                               .body = RecommendBody(big)};
  AskApi asks(http.face());
  std::vector<HttpResponse> refused;
  std::vector<std::function<void()>> gone;
  for (int i = 0; i < 10; ++i) {
    const auto answer = asks.Answer(request);
    ASSERT_TRUE(answer.has_value());
    // Later replies come from the thread that works on the questions.
    auto leave =
        answer->open_reply([&refused, is_here = std::this_thread::get_id()](HttpResponse response) {
          if (std::this_thread::get_id() == is_here) refused.push_back(std::move(response));
        });
    if (leave) gone.push_back(std::move(leave));
  }
  for (const auto& leave : gone) leave();
  ASSERT_GE(refused.size(), 1U);
  EXPECT_EQ(refused[0].status, 429);
  EXPECT_THAT(refused[0].body, HasSubstr("SERVER_BUSY"));
}

std::string CreateBody(const std::string& id) {
  v1::CreateStudyRequest request;
  request.set_study_id(id);
  *request.mutable_question() = SmallQuestion();
  return Json(request);
}

TEST(HttpWritesTest, StudiesAreCreatedEditedAndCancelled) {
  HttpFace http(true);
  EXPECT_THAT(http.Get("/v1/server").body, HasSubstr(R"("allows_http_writes": true)"));
  const auto created =
      Parsed<v1::CreateStudyResponse>(http.Ask("POST", "/v1/studies", CreateBody("mine")));
  EXPECT_EQ(created.study().id(), "mine");
  EXPECT_EQ(http.Ask("POST", "/v1/studies", CreateBody("mine")).status, 409);

  const std::string etag = created.study().etag();
  const auto named = Parsed<v1::UpdateStudyResponse>(
      http.Ask("PATCH", "/v1/studies/mine", R"({"display_name": "ours", "labels": {"team": "x"}})",
               fmt::format("Content-Type: application/json\r\nIf-Match: \"{}\"\r\n", etag)));
  EXPECT_EQ(named.study().display_name(), "ours");
  EXPECT_EQ(named.study().labels().at("team"), "x");
  EXPECT_NE(named.study().etag(), etag);

  const auto paused =
      Parsed<v1::PauseStudyResponse>(http.Ask("POST", "/v1/studies/mine:pause", "{}"));
  EXPECT_THAT(paused.study().state(), testing::AnyOf("running", "paused"));
  const auto resumed =
      Parsed<v1::ResumeStudyResponse>(http.Ask("POST", "/v1/studies/mine:resume", "{}"));
  EXPECT_THAT(resumed.study().state(), testing::AnyOf("running", "queued"));
  EXPECT_EQ(http.Ask("POST", "/v1/studies/none:pause", "{}").status, 404);
  EXPECT_EQ(http.Ask("POST", "/v1/studies/none:resume", "{}").status, 404);

  const auto cancelled =
      Parsed<v1::CancelStudyResponse>(http.Ask("POST", "/v1/studies/mine:cancel", "{}"));
  EXPECT_THAT(cancelled.study().state(), testing::AnyOf("cancelling", "cancelled"));
  EXPECT_EQ(http.Ask("POST", "/v1/studies/none:cancel", "{}").status, 404);
}

TEST(HttpWritesTest, AStudyIsDeletedByItsAddress) {
  HttpFace http(true);
  Parsed<v1::CreateStudyResponse>(http.Ask("POST", "/v1/studies", CreateBody("mine")));
  const Answer early = http.Ask("DELETE", "/v1/studies/mine", "", "");
  EXPECT_EQ(early.status, 400);
  EXPECT_THAT(early.body, HasSubstr("STUDY_NOT_ENDED"));
  const Answer retry = http.Ask("POST", "/v1/studies/mine:retryTrials", "{}");
  EXPECT_THAT(retry.body, HasSubstr("STUDY_NOT_ENDED"));
  // It waits in the queue or has just begun; both end at once.
  Parsed<v1::CancelStudyResponse>(http.Ask("POST", "/v1/studies/mine:cancel", "{}"));
  EXPECT_TRUE(WaitFor([&] {
    return http.Get("/v1/studies/mine").body.find(R"("state": "cancelled")") != std::string::npos;
  }));
  EXPECT_EQ(http.Ask("DELETE", "/v1/studies/mine?colour=red", "", "").status, 400);
  EXPECT_EQ(http.Ask("DELETE", "/v1/studies/mine", "", "If-Match: \"7\"\r\n").status, 412);
  const auto deleted = Parsed<v1::DeleteStudyResponse>(
      http.Ask("DELETE", "/v1/studies/mine?request_id=r1&retract_measurements=true", "", ""));
  EXPECT_EQ(deleted.study_id(), "mine");
  EXPECT_EQ(http.Ask("DELETE", "/v1/studies/mine", "", "").status, 404);
  EXPECT_EQ(
      http.Ask("DELETE", "/v1/studies/mine?request_id=r1&retract_measurements=true", "", "").status,
      200);
  EXPECT_EQ(http.Ask("POST", "/v1/studies/mine:retryTrials", "{}").status, 404);
}

TEST(HttpWritesTest, AStaleEtagChangesNothing) {
  HttpFace http(true);
  const auto created =
      Parsed<v1::CreateStudyResponse>(http.Ask("POST", "/v1/studies", CreateBody("mine")));
  const std::string etag = created.study().etag();
  EXPECT_EQ(http.Ask("PATCH", "/v1/studies/mine", R"({"note": "first"})").status, 200);
  const auto with_tag = [&](const std::string& tag, const std::string& body) {
    return http.Ask("PATCH", "/v1/studies/mine", body,
                    fmt::format("Content-Type: application/json\r\nIf-Match: {}\r\n", tag));
  };
  const Answer stale = with_tag(fmt::format("\"{}\"", etag), R"({"note": "second"})");
  EXPECT_EQ(stale.status, 412);
  EXPECT_THAT(stale.body, HasSubstr("STALE_STUDY"));
  const std::string with_field = fmt::format(R"({{"note": "second", "etag": "{}"}})", etag);
  EXPECT_EQ(http.Ask("PATCH", "/v1/studies/mine", with_field).status, 409);
  EXPECT_EQ(with_tag("\"other\"", with_field).status, 400);  // they contradict each other
  EXPECT_THAT(http.Get("/v1/studies/mine").body, HasSubstr(R"("note": "first")"));
  EXPECT_EQ(with_tag("*", R"({"note": "second"})").status, 200);
  EXPECT_THAT(http.Get("/v1/studies/mine").body, HasSubstr(R"("note": "second")"));
}

TEST(HttpWritesTest, TheAddressSaysWhichStudy) {
  HttpFace http(true);
  const Answer other = http.Ask("PATCH", "/v1/studies/mine", R"({"study_id": "yours"})");
  EXPECT_EQ(other.status, 400);
  EXPECT_THAT(other.body, HasSubstr(R"(must be \"mine\" as in the address, or absent)"));
  EXPECT_EQ(http.Ask("PATCH", "/v1/studies/mine", R"({"study_id": "mine"})").status, 404);
}

TEST(HttpWritesTest, AReadOnlyServerRefusesEveryChange) {
  HttpFace http(false);
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"POST", "/v1/studies"},
      {"PATCH", "/v1/studies/s"},
      {"POST", "/v1/studies/s:cancel"},
      {"DELETE", "/v1/studies/s"},
      {"PUT", "/v1/studies/s"},
      {"OPTIONS", "/v1/studies"},
      {"POST", "/v1/studies/s:retryTrials"},
      {"POST", "/v1/nothing"},
      {"POST", "/v1/plans:ponder"}};
  for (const auto& [method, target] : changes) {
    const Answer refused =
        http.Ask(method, target, method.starts_with('P') && method != "PUT" ? CreateBody("s") : "");
    EXPECT_EQ(refused.status, 405) << method << target;
    EXPECT_THAT(refused.body, HasSubstr("READ_ONLY"));
    EXPECT_THAT(refused.header, HasSubstr("Allow: GET, HEAD"));
  }
  EXPECT_THAT(http.Get("/v1/studies").body, HasSubstr(R"("studies": [])"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
