#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "search_space/base/status.h"
#include "server/convert/status_wire.h"
#include "server/rpc/client/client.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/question/study_answer.h"
#include "tests/rpc/questions.h"
#include "tests/rpc/server_fixture.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using std::chrono::milliseconds;
using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> States(const std::vector<v1::WatchStudyResponse>& events) {
  std::vector<std::string> states;
  for (const auto& event : events) {
    if (event.kind() == "state") states.push_back(event.state());
  }
  return states;
}

TEST_F(ServerTest, AStudyFromCreateToPlans) {
  const auto created = Create(SmallQuestion());
  ASSERT_TRUE(created.ok()) << created.status();
  const std::string id = created->study().id();
  std::vector<v1::WatchStudyResponse> events;
  ASSERT_TRUE(Watch(id, events).ok());
  EXPECT_THAT(States(events), ElementsAre("queued", "running", "succeeded"));

  const auto study = client().GetStudy(id);
  ASSERT_TRUE(study.ok()) << study.status();
  EXPECT_EQ(study->study().state(), "succeeded") << study->study().error_message();
  EXPECT_THAT(study->study().outcome(), AnyOf("improved", "baseline_best"));
  EXPECT_EQ(study->question().model().name(), "llama2-7b");
  EXPECT_EQ(study->result().plans_size(), 5);
  EXPECT_FALSE(study->has_infeasible());

  v1::ListPlansRequest request;
  request.set_study_id(id);
  request.set_page_size(4);
  const auto first = client().ListPlans(request);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(first->plans_size(), 4);
  EXPECT_EQ(first->plans(0).rank(), 0);  // the baseline
  EXPECT_EQ(first->plans(1).state(), "estimated");
  EXPECT_EQ(first->plans(1).plan_digest(), study->study().best_plan_digest());
  EXPECT_EQ(first->plans(1).estimate().step_time_seconds(),
            study->study().best_step_time_seconds());
  request.set_page_token(first->next_page_token());
  const auto second = client().ListPlans(request);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->plans_size(), 2);  // the baseline and five are six
  EXPECT_EQ(second->next_page_token(), "");

  // The study did not ask for trials.
  v1::ListTrialsRequest trials;
  trials.set_study_id(id);
  const auto none = client().ListTrials(trials);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->trials_size(), 0);

  const auto list = client().ListStudies({});
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->studies_size(), 1);
  EXPECT_EQ(list->studies(0).id(), id);
}

TEST_F(ServerTest, WatchComesBackWhereItLeft) {
  const std::string id = Create(SmallQuestion())->study().id();
  std::vector<v1::WatchStudyResponse> all;
  ASSERT_EQ(Watch(id, all), absl::OkStatus());
  std::erase_if(all, [](const auto& event) { return event.kind() == "heartbeat"; });
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].revision(), static_cast<std::int64_t>(i) + 1);
  }
  std::vector<v1::WatchStudyResponse> rest;
  ASSERT_TRUE(Watch(id, rest, 2).ok());
  ASSERT_EQ(rest.size(), all.size() - 2);
  EXPECT_EQ(rest.front().revision(), 3);
  std::vector<v1::WatchStudyResponse> none;
  EXPECT_TRUE(Watch(id, none, all.back().revision()).ok());
  EXPECT_TRUE(none.empty());
}

// A heartbeat that falls between a call's close and the end of its last write is no reason to cut
// the call off: its reader takes that message in a moment.
TEST(WatchTest, HeartbeatsCutNoCallOff) {
  RunningServer running(std::chrono::milliseconds(1));
  v1::CreateStudyRequest create;
  *create.mutable_question() = SmallQuestion();
  const auto created = running.client().CreateStudy(create);
  ASSERT_TRUE(created.ok()) << created.status();
  v1::WatchStudyRequest request;
  request.set_study_id(created->study().id());
  for (int i = 0; i < 300; ++i) {
    std::string last;
    ASSERT_EQ(running.client().WatchStudy(request,
                                          [&](const v1::WatchStudyResponse& event) {
                                            if (event.kind() == "state") last = event.state();
                                            return true;
                                          }),
              absl::OkStatus())
        << "in watch " << i;
    EXPECT_EQ(last, "succeeded");
  }
}

TEST_F(ServerTest, TheEmbeddedAnswerIsTheServersAnswer) {
  v1::RecommendRequest request;
  *request.mutable_question() = SmallQuestion();
  auto served = client().Recommend(request);
  ASSERT_TRUE(served.ok()) << served.status();
  const auto asked = FromWire(SmallQuestion(), Known());
  ASSERT_TRUE(asked.ok());
  const auto embedded = RunStudy(*asked, Known(), {});
  ASSERT_TRUE(embedded.ok()) << embedded.status();
  v1::TuneResult expected = ToWire(std::get<StudyResult>(*embedded));
  // Each search has its own time.
  expected.mutable_search()->clear_seconds();
  served->mutable_result()->mutable_search()->clear_seconds();
  EXPECT_EQ(served->result().DebugString(), expected.DebugString());
}

TEST_F(ServerTest, RecommendKeepsItsStudy) {
  v1::RecommendRequest request;
  *request.mutable_question() = SmallQuestion();
  const auto answer = client().Recommend(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const auto study = client().GetStudy(answer->study_id());
  ASSERT_TRUE(study.ok()) << study.status();
  EXPECT_EQ(study->study().state(), "succeeded");
  EXPECT_EQ(study->result().plans(0).plan_digest(), answer->result().plans(0).plan_digest());
}

TEST_F(ServerTest, RecommendAnswersWithinItsDeadline) {
  v1::RecommendRequest request;
  *request.mutable_question() = BigQuestion();
  // If the server had been late, the code would be the client's own: DEADLINE_EXCEEDED. Sanitizers
  // on a busy machine need the time.
  const auto answer = client().Recommend(request, {.timeout = milliseconds(60000)});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_FALSE(answer->result().plans().empty());
}

TEST_F(ServerTest, FiveMistakesAreFiveViolations) {
  v1::CreateStudyRequest request;
  request.set_study_id("Bad Id");
  *request.mutable_question() = SmallQuestion();
  request.mutable_question()->mutable_model()->set_layer_count(0);
  request.mutable_question()->mutable_model()->set_mlp("tanh");
  request.mutable_question()->mutable_workload()->set_precision("fp64");
  request.mutable_question()->mutable_cluster()->mutable_pools(0)->set_chip("nvidia-a1000");
  const auto answer = client().CreateStudy(request);
  EXPECT_TRUE(absl::IsInvalidArgument(answer.status()));
  EXPECT_EQ(Reason(answer.status()), "INVALID_FIELDS");
  std::set<std::string> fields;
  for (const FieldViolation& violation : FieldViolations(answer.status())) {
    fields.insert(violation.field);
  }
  EXPECT_EQ(fields, (std::set<std::string>{"study_id", "model.layer_count", "model.mlp",
                                           "workload.precision", "cluster.pools[0].chip"}))
      << answer.status();
  EXPECT_EQ(client().ListStudies({})->studies_size(), 0);
}

TEST_F(ServerTest, WhatCannotFitIsInfeasible) {
  v1::RecommendRequest request;
  *request.mutable_question() = BigQuestion();
  request.mutable_question()->mutable_cluster()->mutable_pools(0)->set_node_count(1);
  request.mutable_question()->mutable_cluster()->mutable_pools(0)->set_devices_per_node(1);
  const auto answer = client().Recommend(request);
  EXPECT_TRUE(absl::IsFailedPrecondition(answer.status())) << answer.status();
  EXPECT_EQ(Reason(answer.status()), "NO_FEASIBLE_PLAN");
  const auto infeasible = InfeasibleOf(answer.status());
  ASSERT_TRUE(infeasible.has_value());
  EXPECT_THAT(infeasible->binding_memory_kind(), Not(""));
  const auto study_id = StudyIdOf(answer.status());
  ASSERT_TRUE(study_id.has_value());
  const auto study = client().GetStudy(*study_id);
  ASSERT_TRUE(study.ok()) << study.status();
  EXPECT_EQ(study->study().outcome(), "no_feasible_plan");
  EXPECT_EQ(study->infeasible().DebugString(), infeasible->DebugString());
}

TEST_F(ServerTest, UnknownThingsAreNotFound) {
  std::vector<v1::WatchStudyResponse> events;
  v1::ListPlansRequest plans;
  plans.set_study_id("study-none");
  v1::ListTrialsRequest trials;
  trials.set_study_id("study-none");
  v1::ListAttemptsRequest attempts;
  attempts.set_study_id("study-none");
  v1::UpdateStudyRequest update;
  update.set_study_id("study-none");
  for (const absl::Status& status :
       {client().GetStudy("study-none").status(), client().CancelStudy("study-none").status(),
        client().PauseStudy("study-none").status(), client().ResumeStudy("study-none").status(),
        client().ListPlans(plans).status(), client().ListTrials(trials).status(),
        client().ListAttempts(attempts).status(), client().UpdateStudy(update).status(),
        Watch("study-none", events), client().GetChip("nvidia-a1000").status()}) {
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
  }
}

TEST_F(ServerTest, TheSameRequestIdMakesOneStudy) {
  v1::CreateStudyRequest request;
  request.set_request_id("r-1");
  *request.mutable_question() = SmallQuestion();
  const auto first = client().CreateStudy(request);
  const auto second = client().CreateStudy(request);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(first->study().id(), second->study().id());
  request.mutable_question()->set_plan_count(2);
  EXPECT_EQ(Reason(client().CreateStudy(request).status()), "REQUEST_ID_REUSED");
}

TEST_F(ServerTest, StudiesHaveNamesNotesAndLabels) {
  const std::string id = Create(SmallQuestion())->study().id();
  v1::UpdateStudyRequest request;
  request.set_study_id(id);
  request.set_display_name("first try");
  request.set_note("one\ntwo");
  (*request.mutable_labels())["team"] = "LLM.a";
  request.set_etag(client().GetStudy(id)->study().etag());
  const auto updated = client().UpdateStudy(request);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->study().display_name(), "first try");
  EXPECT_EQ(Reason(client().UpdateStudy(request).status()), "STALE_STUDY");
  v1::ListStudiesRequest list;
  (*list.mutable_filter()->mutable_labels())["team"] = "LLM.a";
  list.mutable_filter()->set_created_from("2020-01-31");
  ASSERT_EQ(client().ListStudies(list)->studies_size(), 1);
  EXPECT_EQ(client().ListStudies(list)->studies(0).note(), "one\ntwo");
  list.mutable_filter()->set_created_before("2020-01-31T00:00:00+01:00");
  EXPECT_EQ(client().ListStudies(list)->studies_size(), 0);
}

TEST_F(ServerTest, EveryMistakeOfRemarksIsNamed) {
  v1::UpdateStudyRequest request;
  request.set_study_id("s");
  request.set_display_name(std::string(121, 'x'));
  request.set_note(std::string(10'001, 'x'));
  (*request.mutable_labels())["Team"] = "a b";
  request.add_removed_labels("");
  request.set_etag("old");
  std::vector<std::string> fields;
  for (const FieldViolation& one : FieldViolations(client().UpdateStudy(request).status())) {
    fields.push_back(one.field);
  }
  EXPECT_THAT(fields, testing::UnorderedElementsAre("display_name", "note", "labels",
                                                    "labels[\"Team\"]", "removed_labels", "etag"));
  v1::ListStudiesRequest list;
  list.mutable_filter()->set_created_from("yesterday");
  EXPECT_EQ(FieldViolations(client().ListStudies(list).status()).at(0).field,
            "filter.created_from");
}

TEST_F(ServerTest, CancelEndsAStudyHoweverFarItIs) {
  const std::string running = Create(BigQuestion())->study().id();
  const std::string queued = Create(BigQuestion())->study().id();
  ASSERT_TRUE(client().CancelStudy(queued).ok());
  ASSERT_TRUE(client().CancelStudy(running).ok());
  ASSERT_TRUE(client().CancelStudy(running).ok());  // pressed twice
  for (const std::string& id : {running, queued}) {
    std::vector<v1::WatchStudyResponse> events;
    ASSERT_TRUE(Watch(id, events).ok());
    // On a fast machine, the first study may have ended before it was cancelled.
    EXPECT_THAT(client().GetStudy(id)->study().state(), AnyOf("cancelled", "succeeded"));
  }
}

TEST_F(ServerTest, APausedStudyWaitsUntilItIsResumed) {
  const std::string running = Create(BigQuestion())->study().id();
  const std::string queued = Create(BigQuestion())->study().id();
  ASSERT_TRUE(client().PauseStudy(queued).ok());
  // On a fast machine, the first study may have ended before it is cancelled.
  ASSERT_TRUE(client().CancelStudy(running).ok());
  const auto resumed = client().ResumeStudy(queued);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_THAT(resumed->study().state(), AnyOf("queued", "running"));
  ASSERT_TRUE(client().CancelStudy(queued).ok());
  std::vector<v1::WatchStudyResponse> events;
  ASSERT_TRUE(Watch(queued, events).ok());
  std::vector<std::string> states;
  for (const v1::WatchStudyResponse& event : events) {
    if (event.kind() == "state") states.push_back(event.state());
  }
  EXPECT_THAT(states, Contains("paused"));
  EXPECT_EQ(Reason(client().PauseStudy(queued).status()), "STUDY_ENDED");
}

TEST_F(ServerTest, BadPagesAreInvalid) {
  v1::ListStudiesRequest request;
  request.set_page_size(-1);
  EXPECT_TRUE(absl::IsInvalidArgument(client().ListStudies(request).status()));
  request.set_page_size(0);
  request.set_page_token("nonsense");
  EXPECT_EQ(Reason(client().ListStudies(request).status()), "INVALID_PAGE_TOKEN");
  std::vector<v1::WatchStudyResponse> events;
  EXPECT_TRUE(absl::IsInvalidArgument(Watch("study-none", events, -1)));
}

TEST_F(ServerTest, EvaluatesManyPlansInTheirOrder) {
  v1::EvaluatePlansRequest request;
  for (int i = 0; i < 600; ++i) {  // more than one part of the client's
    v1::EvaluateCase& plan_case = *request.add_cases();
    plan_case.set_id(std::to_string(i));
    *plan_case.mutable_model() = SmallQuestion().model();
    *plan_case.mutable_workload() = SmallQuestion().workload();
    *plan_case.mutable_cluster() = SmallQuestion().cluster();
    // 3 does not divide 8 devices, so every third case is wrong, and only these fail.
    plan_case.mutable_plan()->set_tensor_parallel(i % 3 == 2 ? 3 : 1 + i % 3);
  }
  const auto response = client().EvaluatePlans(request);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->answers_size(), 600);
  for (int i = 0; i < 600; ++i) {
    const v1::EvaluateAnswer& answer = response->answers(i);
    EXPECT_EQ(answer.has_failed(), i % 3 == 2) << i;
    EXPECT_EQ(answer.has_failed() ? answer.failed().id() : answer.estimate().id(),
              std::to_string(i));
  }
}

TEST_F(ServerTest, TellsWhatItKnows) {
  const auto about = client().GetServerInfo();
  ASSERT_TRUE(about.ok()) << about.status();
  EXPECT_EQ(about->api_version(), "meshwright.v1");
  EXPECT_THAT(about->strategies(), Contains("exhaustive"));
  EXPECT_THAT(about->frameworks(), Contains("megatron-core"));
  EXPECT_GT(about->store_schema_version(), 0);
  const auto chips = client().ListChips();
  ASSERT_TRUE(chips.ok()) << chips.status();
  EXPECT_EQ(chips->chips_size(), about->chip_count());
  const auto chip = client().GetChip("nvidia-a100-sxm4-80gb");
  ASSERT_TRUE(chip.ok()) << chip.status();
  std::vector<std::string> figures;
  for (const v1::Figure& figure : chip->chip().figures()) figures.push_back(figure.name());
  EXPECT_THAT(figures, testing::IsSupersetOf({"peak_bf16_flops_per_second",
                                              "measured_peak_bf16_flops_per_second",
                                              "collective_all_reduce_8_ranks"}));
}

TEST_F(ServerTest, ShutdownEndsAWatchThatCanGoOnLater) {
  const std::string id = Create(BigQuestion())->study().id();
  std::vector<v1::WatchStudyResponse> events;
  v1::WatchStudyRequest request;
  request.set_study_id(id);
  bool has_stopped = false;
  const absl::Status status = client().WatchStudy(request, [&](const auto& /*event*/) {
    if (!has_stopped) server().Shutdown();
    has_stopped = true;
    return true;
  });
  EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
}

TEST(Client, AnUnreachableServerIsNamed) {
  const auto client = Client::Connect("127.0.0.1:1");  // tcpmux: nobody listens there
  EXPECT_TRUE(absl::IsUnavailable(client.status())) << client.status();
  EXPECT_THAT(std::string(client.status().message()), HasSubstr("127.0.0.1:1"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
