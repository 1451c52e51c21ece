#include "server/http/read_api.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "meshwright/v1/service.pb.h"
#include "proto/json/json.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/store_access.h"
#include "server/convert/catalog_wire.h"
#include "server/engine/followers.h"
#include "server/engine/history_queries.h"
#include "server/http/ask_api.h"
#include "server/http/dashboard.h"
#include "server/http/write_api.h"
#include "server/tuner/question/knowledge.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Collects what one reader gets.
class Collected final : public EventWriter {
 public:
  void Write(std::string event) override { events.push_back(std::move(event)); }
  void End() override { has_ended = true; }
  std::vector<std::string> events;
  bool has_ended = false;
};

// A store with three studies: a and b of llama on two clusters, c of mixtral; a has failed.
class ReadApiTest : public testing::Test {
 protected:
  ReadApiTest() {
    Insert({.id = "a", .model_name = "Llama-2-70B", .cluster_name = "a100", .create_time_ms = 1});
    Insert({.id = "b", .model_name = "llama-3-8b", .cluster_name = "h100", .create_time_ms = 2});
    Insert({.id = "c", .model_name = "mixtral", .cluster_name = "H100", .create_time_ms = 3});
    EXPECT_TRUE(recorder_
                    .FinishStudy({.study_id = "a",
                                  .state = StudyState::kFailed,
                                  .time_ms = 4,
                                  .outcome = "failed",
                                  .error_message = "why"})
                    .ok());
  }

  void Insert(const StudyRecord& study) { EXPECT_TRUE(recorder_.InsertStudy(study).ok()); }

  HttpResponse Get(const std::string& path, const std::string& query = "") {
    return AnswerRead(face_, {.path = path, .query = query}).response;
  }

  // Returns the ids of the studies that a query lists.
  std::vector<std::string> Ids(const std::string& query) {
    const HttpResponse response = Get("/v1/studies", query);
    v1::ListStudiesResponse list;
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_THAT(ParseJson(response.body, "", list), IsEmpty());
    std::vector<std::string> ids;
    for (const v1::Study& study : list.studies()) ids.push_back(study.id());
    token_ = list.next_page_token();
    return ids;
  }

  std::string token_;  // of the last list
  const Knowledge knowledge_ = LoadKnowledge("").value();
  Recorder recorder_ = Recorder::Open({.path = ":memory:"}).value();
  const StoreAccess access_ = DirectAccess(recorder_);
  Followers followers_{access_};
  const ReadFace face_ = {
      .knowledge = knowledge_,
      .history = HistoryQueries(access_),
      .feed = {.subscribe =
                   [this](std::string_view id, std::int64_t after, EventSink sink) {
                     return followers_.Add(id, after, std::move(sink));
                   },
               .unsubscribe = [this](std::int64_t id) { followers_.Remove(id); }},
      .server_info = [this] { return ServerInfo(knowledge_, 7); }};
};

TEST_F(ReadApiTest, ListsHaveFiltersAndPages) {
  EXPECT_THAT(Ids(""), ElementsAre("c", "b", "a"));
  EXPECT_THAT(Ids("filter.state=failed"), ElementsAre("a"));
  EXPECT_THAT(Ids("filter.state=queued"), ElementsAre("c", "b"));
  EXPECT_THAT(Ids("filter.outcome=failed"), ElementsAre("a"));
  // Part of a name, in either case; a wildcard of SQL is only itself.
  EXPECT_THAT(Ids("filter.text=LLAMA"), ElementsAre("b", "a"));
  EXPECT_THAT(Ids("filter.text=h100&filter.state=queued"), ElementsAre("c", "b"));
  EXPECT_THAT(Ids("filter.text=%25"), IsEmpty());
  ASSERT_TRUE(recorder_.EditStudy({.study_id = "b", .labels = {{"team", "vision"}}}).ok());
  EXPECT_THAT(Ids("filter.labels.team=vision"), ElementsAre("b"));
  EXPECT_THAT(Ids("filter.labels.team=speech"), IsEmpty());
  EXPECT_THAT(Ids("filter.created_from=1970-01-01T00:00:00.002Z"), ElementsAre("c", "b"));

  EXPECT_THAT(Ids("page_size=1&filter.text=llama"), ElementsAre("b"));
  const std::string token = token_;
  EXPECT_THAT(Ids("page_size=1&filter.text=llama&page_token=" + token), ElementsAre("a"));
  EXPECT_EQ(token_, "");
  // A token belongs to its filter.
  EXPECT_THAT(Get("/v1/studies", "filter.text=x&page_token=" + token).body,
              HasSubstr("INVALID_PAGE_TOKEN"));
}

TEST_F(ReadApiTest, MistakesAreNamedAsTheCommandLineDoes) {
  const HttpResponse bad = Get("/v1/studies", "page_size=x&filter.state=gone&nothing=1");
  EXPECT_EQ(bad.status, 400);
  EXPECT_EQ(bad.content_type, "application/json");
  EXPECT_THAT(bad.body, HasSubstr(R"("field": "page_size", "description": "'x'; must be a whole)"));
  EXPECT_THAT(bad.body, HasSubstr(R"("field": "nothing")"));
  EXPECT_THAT(Get("/v1/studies", "filter.state=gone").body, HasSubstr("filter.state"));

  const HttpResponse absent = Get("/v1/studies/none");
  EXPECT_EQ(absent.status, 404);
  EXPECT_THAT(absent.body, HasSubstr(R"("reason": "UNKNOWN_STUDY")"));
  EXPECT_EQ(Get("/v1/nothing").status, 404);
  EXPECT_EQ(Get("/v1/studies/a/").status, 404);
  EXPECT_EQ(Get("/v1/studies/%zz").status, 400);
  EXPECT_EQ(Get("/v1/studies/a%00").status, 400);  // control characters
}

TEST_F(ReadApiTest, EveryAddressAnswersWithItsMessage) {
  EXPECT_THAT(Get("/v1/studies/a").body, HasSubstr(R"("error_message": "why")"));
  EXPECT_THAT(Get("/v1/studies/a/plans").body, HasSubstr(R"({"plans": [])"));
  EXPECT_THAT(Get("/v1/studies/a/trials").body, HasSubstr(R"({"trials": [])"));
  EXPECT_THAT(Get("/v1/studies/a/attempts").body, HasSubstr(R"({"attempts": [])"));
  EXPECT_THAT(Get("/v1/jobReports").body, HasSubstr(R"({"reports": [])"));
  EXPECT_THAT(Get("/v1/measurements").body, HasSubstr(R"({"measurements": [])"));
  EXPECT_THAT(Get("/v1/calibrations").body, HasSubstr(R"({"calibrations": [])"));
  EXPECT_THAT(Get("/v1/costModels").body, HasSubstr(R"({"cost_models": [])"));
  EXPECT_THAT(Get("/v1/server").body, HasSubstr(R"("store_schema_version": 7)"));
  EXPECT_THAT(Get("/v1/chips").body, HasSubstr("nvidia-a100-sxm4-80gb"));
  EXPECT_THAT(Get("/v1/chips/nvidia-a100-sxm4-80gb").body, HasSubstr(R"("figures": [{)"));
  EXPECT_EQ(Get("/v1/chips/none").status, 404);
  EXPECT_EQ(Get("/v1/measurements/none").status, 404);
  EXPECT_EQ(Get("/v1/calibrations/none").status, 404);
  EXPECT_THAT(Get("/v1/studies/a/paretoTrials").body, HasSubstr(R"({"trials": [])"));
  for (const char* absent : {"/v1/studies/a/plans/1", "/v1/studies/a/trials/1",
                             "/v1/studies/a/trials/1/logs", "/v1/studies/none/paretoTrials"}) {
    EXPECT_EQ(Get(absent).status, 404) << absent;
  }
  EXPECT_EQ(Get("/v1/studies/a/plans/first").status, 400);
  EXPECT_EQ(Get("/v1/studies/a/trials/0").status, 400);
  EXPECT_THAT(Get("/v1/auditEvents").body, HasSubstr(R"({"events": [])"));
  EXPECT_THAT(Get("/v1/callers").body, HasSubstr(R"("has_list": false)"));
  EXPECT_EQ(ReadAddresses().size(), 22U);  // those above, of events, and of the description
}

TEST_F(ReadApiTest, TheDescriptionHasEveryAddressAndNoOther) {
  const HttpResponse served = Get("/v1/openapi.json");
  EXPECT_EQ(served.content_type, "application/json");
  const nlohmann::json described = nlohmann::json::parse(served.body);
  EXPECT_EQ(described["openapi"], "3.1.0");
  std::vector<std::string> calls;
  for (const auto& [address, methods] : described["paths"].items()) {
    for (const auto& [method, operation] : methods.items()) {
      std::string upper = method;
      std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
      calls.push_back(upper + " " + address);
    }
  }
  std::vector<std::string> known = AskAddresses();
  for (const std::string& call : WriteAddresses()) known.push_back(call);
  for (const std::string& address : ReadAddresses()) known.push_back("GET " + address);
  EXPECT_THAT(calls, testing::UnorderedElementsAreArray(known));
}

// "a" has two events: 1 queued, 2 failed; "b" has one.
TEST_F(ReadApiTest, EventsAreReplayedFollowedAndEnded) {
  const HttpAnswer over = AnswerRead(face_, {.path = "/v1/studies/a:watch"});
  EXPECT_EQ(over.response.content_type, "text/event-stream");
  ASSERT_TRUE(over.open_events);
  auto reader = std::make_shared<Collected>();
  over.open_events(reader);
  ASSERT_EQ(reader->events.size(), 3U);
  EXPECT_THAT(reader->events[0], HasSubstr("id: 1\ndata: {\"revision\": 1,"));
  EXPECT_THAT(reader->events[0], HasSubstr(R"("state": "queued")"));
  EXPECT_THAT(reader->events[1], HasSubstr(R"("state": "failed")"));
  EXPECT_EQ(reader->events[2], "event: end\ndata: {}\n\n");
  EXPECT_TRUE(reader->has_ended);

  const HttpAnswer alive = AnswerRead(face_, {.path = "/v1/studies/b:watch"});
  auto follower = std::make_shared<Collected>();
  const auto gone = alive.open_events(follower);
  EXPECT_EQ(follower->events.size(), 1U);
  const EventRecord event = {.study_id = "b", .kind = kProgressEventKind};
  ASSERT_TRUE(recorder_.AppendEvents({&event, 1}).ok());
  EXPECT_TRUE(followers_.PublishAll().ok());
  ASSERT_EQ(follower->events.size(), 2U);
  EXPECT_THAT(follower->events[1], HasSubstr("id: 2\n"));
  EXPECT_FALSE(follower->has_ended);
  gone();
  ASSERT_TRUE(recorder_.AppendEvents({&event, 1}).ok());
  EXPECT_TRUE(followers_.PublishAll().ok());
  EXPECT_EQ(follower->events.size(), 2U);
}

TEST_F(ReadApiTest, ABrowserThatComesBackMissesNothingAndGetsNothingTwice) {
  auto reader = std::make_shared<Collected>();
  AnswerRead(face_, {.path = "/v1/studies/a:watch", .last_event_id = "1"}).open_events(reader);
  ASSERT_EQ(reader->events.size(), 2U);
  EXPECT_THAT(reader->events[0], HasSubstr("id: 2\n"));

  auto late = std::make_shared<Collected>();
  AnswerRead(face_, {.path = "/v1/studies/a:watch", .query = "after_revision=2"}).open_events(late);
  EXPECT_THAT(late->events, ElementsAre("event: end\ndata: {}\n\n"));
  EXPECT_TRUE(late->has_ended);

  // When the server stops, the reader is not told that the study has ended.
  auto cut = std::make_shared<Collected>();
  AnswerRead(face_, {.path = "/v1/studies/b:watch"}).open_events(cut);
  followers_.Close();
  EXPECT_TRUE(cut->has_ended);
  EXPECT_THAT(cut->events, Not(testing::Contains(HasSubstr("event: end"))));

  EXPECT_EQ(Get("/v1/studies/none:watch").status, 404);
  EXPECT_EQ(Get("/v1/studies/a:watch", "after_revision=-1").status, 400);
  EXPECT_EQ(
      AnswerRead(face_, {.path = "/v1/studies/a:watch", .last_event_id = "x"}).response.status,
      400);
}

TEST_F(ReadApiTest, TheDashboardGuardsEveryAnswer) {
  const HttpHandler handler = DashboardHandler(face_);
  const auto ask = [&](HttpRequest request) {
    if (request.host.empty()) request.host = "localhost:1";
    return handler(request).response;
  };
  const auto has = [](const HttpResponse& response, const std::string& name) {
    for (const auto& [field, value] : response.fields) {
      if (field == name) return value;
    }
    return std::string();
  };
  for (const HttpResponse& response :
       {ask({.path = "/"}), ask({.path = "/v1/studies"}), ask({.path = "/none"}),
        ask({.method = "POST", .path = "/v1/studies"}),
        ask({.path = "/", .host = "evil.example"})}) {
    EXPECT_THAT(has(response, "Content-Security-Policy"), HasSubstr("default-src 'none'"));
    EXPECT_THAT(has(response, "Content-Security-Policy"), Not(HasSubstr("unsafe")));
    EXPECT_EQ(has(response, "X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(has(response, "Cache-Control"), "no-cache");
  }
  EXPECT_EQ(ask({.path = "/v1/studies"}).status, 200);
  const HttpResponse refused = ask({.method = "DELETE", .path = "/v1/studies/a"});
  EXPECT_EQ(refused.status, 405);
  EXPECT_THAT(refused.body, HasSubstr("READ_ONLY"));
  EXPECT_EQ(has(refused, "Allow"), "GET, HEAD");
  EXPECT_EQ(ask({.path = "/v1/studies", .host = "evil.example"}).status, 403);
  EXPECT_EQ(ask({.path = "/v1/studies", .origin = "http://evil.example"}).status, 403);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
