// Tests calls that change studies, what the server writes down about calls, and what strangers may
// name, at the socket.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "search_space/base/status.h"
#include "server/auth/callers.h"
#include "server/rpc/calls/request_limits.h"
#include "server/rpc/services/job_templates.h"
#include "tests/files/temporary_folder.h"
#include "tests/rpc/callers_file.h"
#include "tests/rpc/server_fixture.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ChangesTest : public ServerTest {
 protected:
  // Creates a study and waits for its end; returns its id.
  std::string Ended(const v1::TuneRequest& question) {
    const auto created = Create(question);
    EXPECT_TRUE(created.ok()) << created.status();
    std::vector<v1::WatchStudyResponse> events;
    EXPECT_TRUE(Watch(created->study().id(), events).ok());
    return created->study().id();
  }
};

v1::DeleteStudyRequest Deletion(const std::string& id) {
  v1::DeleteStudyRequest request;
  request.set_study_id(id);
  return request;
}

v1::RetryTrialsRequest Retry(const std::string& id, const std::vector<int>& numbers = {}) {
  v1::RetryTrialsRequest request;
  request.set_study_id(id);
  request.mutable_trial_numbers()->Assign(numbers.begin(), numbers.end());
  return request;
}

TEST_F(ChangesTest, AStudyIsDeletedOnceAndForEverybody) {
  const std::string running = Create(BigQuestion())->study().id();
  EXPECT_EQ(Reason(client().DeleteStudy(Deletion(running)).status()), "STUDY_NOT_ENDED");
  ASSERT_TRUE(client().CancelStudy(running).ok());
  const std::string id = Ended(SmallQuestion());

  v1::DeleteStudyRequest request = Deletion(id);
  request.set_etag("99");
  EXPECT_EQ(Reason(client().DeleteStudy(request).status()), "STALE_STUDY");
  request.set_etag("none");
  EXPECT_EQ(FieldViolations(client().DeleteStudy(request).status()).at(0).field, "etag");
  request.clear_etag();
  request.set_request_id("gone");
  const auto first = client().DeleteStudy(request);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->study_id(), id);
  EXPECT_EQ(first->trial_count(), 0);
  const auto second = client().DeleteStudy(request);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->DebugString(), first->DebugString());
  request.set_retract_measurements(true);
  EXPECT_EQ(Reason(client().DeleteStudy(request).status()), "REQUEST_ID_REUSED");

  EXPECT_TRUE(absl::IsNotFound(client().DeleteStudy(Deletion(id)).status()));
  EXPECT_TRUE(absl::IsNotFound(client().GetStudy(id).status()));
  v1::CreateStudyRequest again;
  again.set_study_id(id);
  *again.mutable_question() = SmallQuestion();
  EXPECT_EQ(Reason(client().CreateStudy(again).status()), "STUDY_DELETED");
}

// A repeated call changes nothing more, even if others have changed the study meanwhile.
TEST_F(ChangesTest, ARepeatedChangeGetsItsFirstAnswer) {
  const std::string id = Create(BigQuestion())->study().id();
  v1::UpdateStudyRequest update;
  update.set_study_id(id);
  update.set_note("mine");
  update.set_request_id("note");
  const auto first = client().UpdateStudy(update);
  ASSERT_TRUE(first.ok()) << first.status();
  v1::UpdateStudyRequest theirs;
  theirs.set_study_id(id);
  theirs.set_note("theirs");
  ASSERT_TRUE(client().UpdateStudy(theirs).ok());
  const auto repeated = client().UpdateStudy(update);
  ASSERT_TRUE(repeated.ok()) << repeated.status();
  EXPECT_EQ(repeated->DebugString(), first->DebugString());
  EXPECT_EQ(client().GetStudy(id)->study().note(), "theirs");

  v1::PauseStudyRequest pause;
  pause.set_study_id(id);
  pause.set_request_id("pause");
  const auto paused = client().PauseStudy(pause);
  ASSERT_TRUE(paused.ok()) << paused.status();
  v1::CancelStudyRequest cancel;
  cancel.set_study_id(id);
  cancel.set_request_id("pause");
  EXPECT_EQ(Reason(client().CancelStudy(cancel).status()), "REQUEST_ID_REUSED");
  cancel.set_request_id("");
  EXPECT_EQ(FieldViolations(client().CancelStudy(cancel).status()).at(0).field, "request_id");
  cancel.set_request_id("cancel");
  const auto cancelled = client().CancelStudy(cancel);
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  // A pause of a study that is cancelled is an error, unless it was answered before.
  EXPECT_EQ(client().PauseStudy(pause)->DebugString(), paused->DebugString());
  pause.clear_request_id();
  EXPECT_FALSE(client().PauseStudy(pause).ok());
  cancel.set_study_id("study-none");
  cancel.set_request_id("other");
  EXPECT_EQ(Reason(client().CancelStudy(cancel).status()), "UNKNOWN_STUDY");
}

TEST_F(ChangesTest, ARememberedAnswerOfADeletedStudyIsKeptAgain) {
  v1::RecommendRequest request;
  *request.mutable_question() = SmallQuestion();
  const auto first = client().Recommend(request);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(client().DeleteStudy(Deletion(first->study_id())).ok());
  const auto second = client().Recommend(request);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE(second->study_id(), first->study_id());
  EXPECT_TRUE(client().GetStudy(second->study_id()).ok());
}

// This engine runs no trials; tests/engine and tests/cli run failed ones again.
TEST_F(ChangesTest, ABadRetryNamesWhatIsWrong) {
  const std::string id = Ended(SmallQuestion());
  const auto bad = FieldViolations(client().RetryTrials(Retry(id, {0, 2, 2})).status());
  ASSERT_EQ(bad.size(), 2U);
  EXPECT_EQ(bad[0].field, "trial_numbers[0]");
  EXPECT_EQ(bad[1].description, "2; stated twice");
  v1::RetryTrialsRequest both = Retry(id, {1});
  both.add_failure_classes("crash");
  const auto conflict = FieldViolations(client().RetryTrials(both).status());
  ASSERT_EQ(conflict.size(), 1U);
  EXPECT_EQ(conflict[0].description, "not together with trial_numbers");
  EXPECT_EQ(Reason(client().RetryTrials(Retry(id, {9})).status()), "UNKNOWN_TRIAL");
  EXPECT_EQ(Reason(client().RetryTrials(Retry(id)).status()), "NO_FAILED_TRIALS");
  EXPECT_EQ(Reason(client().RetryTrials(Retry("study-none")).status()), "UNKNOWN_STUDY");
  EXPECT_EQ(client().GetStudy(id)->study().state(), "succeeded");
}

TEST_F(ChangesTest, TheServerSaysItsLimits) {
  const auto info = client().GetServerInfo();
  ASSERT_TRUE(info.ok()) << info.status();
  std::set<std::string> names;
  for (const v1::ServerLimit& limit : info->limits()) {
    EXPECT_TRUE(names.insert(limit.name()).second) << limit.name();
    EXPECT_GT(limit.value(), 0) << limit.name();
    EXPECT_NE(limit.unit(), "") << limit.name();
    EXPECT_NE(limit.scope(), "") << limit.name();
    const bool is_cases = limit.name() == "case_count";
    const bool is_watches = limit.name() == "watch_count";
    EXPECT_TRUE(!is_cases || limit.value() == kMaxCases) << limit.value();
    EXPECT_TRUE(!is_watches || limit.value() == 4096) << limit.value();
  }
  EXPECT_TRUE(names.contains("case_count"));
  EXPECT_TRUE(names.contains("watch_count"));
}

class AuditTest : public testing::Test {
 protected:
  static ServerOptions Options() {
    return {.callers = CallersWithRoles({"viewer", "submitter", "operator", "admin"})};
  }
  Client As(const std::string& role) {
    return *Client::Connect(running_.server().address(), {.token = role + "-token"});
  }
  std::vector<std::string> Audit() {
    const auto listed = As("admin").ListAuditEvents({});
    EXPECT_TRUE(listed.ok()) << listed.status();
    std::vector<std::string> lines;
    for (const v1::AuditEvent& event : listed->events()) {
      lines.push_back(event.caller() + " " + event.role() + " " + event.protocol() + " " +
                      event.method() + " " + event.study_id() + " " + event.code() + " " +
                      event.reason());
    }
    return lines;
  }
  RunningServer running_{Options()};
};

TEST_F(AuditTest, SaysWhoHasCalledWhat) {
  v1::CreateStudyRequest create;
  create.set_study_id("mine");
  *create.mutable_question() = SmallQuestion();
  ASSERT_TRUE(As("submitter").CreateStudy(create).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(As("viewer").CancelStudy("mine").status()));
  ASSERT_TRUE(As("submitter").CancelStudy("mine").ok());
  EXPECT_TRUE(absl::IsNotFound(As("operator").DeleteStudy(Deletion("other")).status()));
  // Who is not known, and who only reads, leaves no row.
  EXPECT_TRUE(absl::IsUnauthenticated(As("boss").CancelStudy("mine").status()));
  EXPECT_TRUE(As("viewer").GetStudy("mine").ok());
  EXPECT_THAT(Audit(),
              ElementsAre("operator operator grpc DeleteStudy other NOT_FOUND UNKNOWN_STUDY",
                          "submitter submitter grpc CancelStudy mine OK ",
                          "viewer viewer grpc CancelStudy mine PERMISSION_DENIED ROLE_TOO_LOW",
                          "submitter submitter grpc CreateStudy mine OK "));
  EXPECT_EQ(Reason(As("operator").ListAuditEvents({}).status()), "ROLE_TOO_LOW");

  v1::ListAuditEventsRequest bad;
  bad.mutable_filter()->set_created_from("yesterday");
  EXPECT_EQ(FieldViolations(As("admin").ListAuditEvents(bad).status()).at(0).field,
            "filter.created_from");
}

TEST_F(AuditTest, DeletingAndRetryingNeedAnOperator) {
  EXPECT_EQ(Reason(As("submitter").DeleteStudy(Deletion("none")).status()), "ROLE_TOO_LOW");
  EXPECT_EQ(Reason(As("operator").DeleteStudy(Deletion("none")).status()), "UNKNOWN_STUDY");
  EXPECT_EQ(Reason(As("submitter").RetryTrials(Retry("none")).status()), "ROLE_TOO_LOW");
  EXPECT_EQ(Reason(As("operator").RetryTrials(Retry("none")).status()), "UNKNOWN_STUDY");
}

// A server with two job templates, which may run jobs by the rules of its wire.
class JobTemplatesTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text, mode_t mode = 0644) {
    std::ofstream(folder_.File(name)) << text;
    chmod(folder_.File(name).c_str(), mode);
  }
  JobTemplates Load() {
    auto templates = JobTemplates::Load(folder_.File(""));
    EXPECT_TRUE(templates.ok()) << templates.status();
    return templates.value_or(JobTemplates());
  }
  void WriteTwo() {
    Write("train.json", R"({"folder": "/shared/jobs", "command": ["train", "{flags}"],
                            "time_limit_seconds": 900, "metrics": {"format": "json",
                            "fields": ["step_time=t"], "warmup_steps": 2}})");
    Write("probe.json", R"({"folder": "/shared/probe"})");
    Write("README", "not a template");
  }
  TemporaryFolder folder_;
};

TEST_F(JobTemplatesTest, ANameStandsForTheTemplate) {
  WriteTwo();
  const JobTemplates templates = Load();
  EXPECT_THAT(templates.names(), ElementsAre("probe", "train"));
  v1::JobTemplate job;
  job.set_template_name("train");
  job.set_time_limit_seconds(600);
  job.mutable_metrics()->set_warmup_steps(3);
  job.mutable_metrics()->add_fields("step_time=s");
  std::vector<FieldViolation> found;
  templates.Resolve(job, found);
  EXPECT_TRUE(found.empty());
  EXPECT_FALSE(job.has_template_name());
  EXPECT_EQ(job.folder(), "/shared/jobs");
  EXPECT_EQ(job.command_size(), 2);
  EXPECT_EQ(job.time_limit_seconds(), 600);
  EXPECT_EQ(job.metrics().format(), "json");
  EXPECT_EQ(job.metrics().warmup_steps(), 3);
  EXPECT_THAT(job.metrics().fields(), ElementsAre("step_time=s"));
}

TEST_F(JobTemplatesTest, MistakesOfTemplatesAreNamed) {
  WriteTwo();
  Write("bad.json", R"({"folder": "relative", "kommand": []})");
  Write("Two Words.json", R"({"folder": "/a"})");
  Write("open.json", R"({"folder": "/a"})", 0666);
  Write("nested.json", R"({"folder": "/a", "template_name": "train"})");
  const auto loaded = JobTemplates::Load(folder_.File(""));
  std::string all;
  for (const FieldViolation& violation : FieldViolations(loaded.status())) {
    all += violation.field + ": " + violation.description + "\n";
  }
  EXPECT_THAT(all, HasSubstr("bad.json: kommand"));
  EXPECT_THAT(all, HasSubstr("Two Words.json: the name must be"));
  EXPECT_THAT(all, HasSubstr("open.json: others than its owner may write it"));
  EXPECT_THAT(all, HasSubstr("nested.json: template_name: stated; only a server has templates"));
  EXPECT_FALSE(JobTemplates::Load(folder_.File("nowhere")).ok());
}

// Every field of a job, with a value of its type.
struct StatedField {
  const char* name;
  void (*state)(v1::JobTemplate&);
};
const StatedField kStated[] = {
    {"folder", [](v1::JobTemplate& job) { job.set_folder("/tmp/x"); }},
    {"command", [](v1::JobTemplate& job) { job.add_command("/bin/sh"); }},
    {"environment", [](v1::JobTemplate& job) { job.add_environment("LD_PRELOAD=/tmp/x.so"); }},
    {"engine_flags", [](v1::JobTemplate& job) { job.add_engine_flags("--wrap=id"); }},
    {"python", [](v1::JobTemplate& job) { job.set_python("/tmp/python"); }},
    {"workloads_folder", [](v1::JobTemplate& job) { job.set_workloads_folder("/tmp"); }},
    {"poll_interval_seconds", [](v1::JobTemplate& job) { job.set_poll_interval_seconds(1e-9); }},
    {"kubernetes",
     [](v1::JobTemplate& job) { job.mutable_kubernetes()->set_token_file("/etc/shadow"); }},
    {"slots_folder", [](v1::JobTemplate& job) { job.set_slots_folder("/tmp"); }},
    {"memory_limit_bytes", [](v1::JobTemplate& job) { job.set_memory_limit_bytes(1); }},
    {"visible_devices_variable",
     [](v1::JobTemplate& job) { job.set_visible_devices_variable("PATH"); }},
};

// A new field is refused until it is known to hold no path and no command.
TEST_F(JobTemplatesTest, NoFieldIsForgotten) {
  std::set<std::string> known = {"template_name", "processes_per_node", "time_limit_seconds",
                                 "queue_limit_seconds", "metrics"};
  for (const StatedField& field : kStated) known.insert(field.name);
  const auto* const job = v1::JobTemplate::descriptor();
  for (int i = 0; i < job->field_count(); ++i) {
    EXPECT_TRUE(known.contains(job->field(i)->name())) << job->field(i)->name();
  }
}

TEST_F(JobTemplatesTest, AStrangerNamesNoPathAndNoCommand) {
  WriteTwo();
  RunningServer running(
      ServerOptions{.jobs = {.templates = std::make_shared<KnownTemplates>(Load())}});
  const auto create = [&](const v1::JobTemplate& job) {
    v1::CreateStudyRequest request;
    *request.mutable_question() = SmallQuestion();
    v1::TrialRequest& trials = *request.mutable_question()->mutable_trials();
    trials.set_launcher("local");
    trials.set_max_trials(1);
    *trials.mutable_job() = job;
    return running.client().CreateStudy(request).status();
  };
  for (const StatedField& field : kStated) {
    for (const bool is_named : {false, true}) {
      v1::JobTemplate job;
      if (is_named) job.set_template_name("train");
      field.state(job);
      const absl::Status refused = create(job);
      EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
      std::vector<std::string> fields;
      for (const FieldViolation& violation : FieldViolations(refused)) {
        fields.push_back(violation.field);
        EXPECT_THAT(violation.description, Not(HasSubstr("/")));  // nothing of the server's
      }
      const std::string at = std::string("trials.job.") + field.name;
      EXPECT_EQ(fields, is_named ? std::vector<std::string>{at}
                                 : std::vector<std::string>({"trials.job.template_name", at}));
    }
  }
  v1::JobTemplate job;
  EXPECT_THAT(std::string(create(job).message()), HasSubstr("must be one of probe, train"));
  job.set_template_name("../train");
  EXPECT_THAT(std::string(create(job).message()), HasSubstr("must be one of probe, train"));
  job.set_template_name("train");
  job.set_time_limit_seconds(901);
  EXPECT_THAT(std::string(create(job).message()), HasSubstr("must be at most 900"));
  // This engine runs no jobs, which is the last thing that is looked at.
  job.set_time_limit_seconds(900);
  EXPECT_EQ(Reason(create(job)), "JOBS_NOT_ALLOWED");
  EXPECT_THAT(running.client().GetServerInfo()->job_templates(), ElementsAre("probe", "train"));
}

TEST_F(JobTemplatesTest, WithoutTemplatesTheAnswerSaysHowToGetSome) {
  v1::JobTemplate job;
  job.set_folder("/tmp");
  std::vector<FieldViolation> found;
  JobTemplates().Resolve(job, found);
  ASSERT_FALSE(found.empty());
  EXPECT_THAT(found.front().description, HasSubstr("--job-templates"));
}

TEST_F(JobTemplatesTest, AStudyStatesABudgetWithinThatOfTheServer) {
  WriteTwo();
  const JobRules rules = {.templates = std::make_shared<KnownTemplates>(Load()),
                          .study_device_seconds = 3600};
  v1::CreateStudyRequest request;
  v1::TrialRequest& trials = *request.mutable_question()->mutable_trials();
  trials.mutable_job()->set_template_name("train");
  const auto refusal = [&] { return std::string(ResolveJob(rules, request).message()); };
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("trials.max_device_seconds = missing"), HasSubstr("at most 3600")));
  trials.set_max_device_seconds(3601);
  EXPECT_THAT(refusal(), HasSubstr("trials.max_device_seconds = 3601"));
  trials.set_max_device_seconds(std::nan(""));
  EXPECT_THAT(refusal(), HasSubstr("trials.max_device_seconds = nan"));
  // Each mistake is named, and nothing is resolved.
  trials.mutable_job()->set_template_name("other");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("max_device_seconds"), HasSubstr("probe, train")));
  trials.mutable_job()->set_template_name("train");
  trials.set_max_device_seconds(3600);
  EXPECT_TRUE(ResolveJob(rules, request).ok());
  EXPECT_EQ(trials.job().folder(), "/shared/jobs");
  // Jobs that are taken as they are stated have the limit too; a study without jobs has none.
  const JobRules stated = {.takes_stated_jobs = true, .study_device_seconds = 3600};
  request.mutable_question()->mutable_trials()->mutable_job()->Clear();
  EXPECT_TRUE(ResolveJob(stated, request).ok());
  trials.clear_max_device_seconds();
  EXPECT_FALSE(ResolveJob(stated, request).ok());
  trials.clear_job();
  EXPECT_TRUE(ResolveJob(stated, request).ok());
}

TEST_F(JobTemplatesTest, TheBudgetOfAStudyIsALimitOfTheServer) {
  RunningServer running(ServerOptions{.jobs = {.study_device_seconds = 7200}});
  const auto info = running.client().GetServerInfo();
  std::int64_t value = 0;
  for (const v1::ServerLimit& limit : info->limits()) {
    if (limit.name() == "study_device_seconds") value = limit.value();
  }
  EXPECT_EQ(value, 7200);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
