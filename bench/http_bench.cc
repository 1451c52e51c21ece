// Measures how fast the API over HTTP reads a study of 100,000 trials from a store in a file: a
// page is read, converted and printed as JSON, as a request on a connection would be.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "meshwright/v1/problem.pb.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/store_access.h"
#include "recorder/trial_records.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "server/convert/catalog_wire.h"
#include "server/engine/history_queries.h"
#include "server/http/http_message.h"
#include "server/http/read_api.h"
#include "server/http/read_face.h"
#include "server/tuner/question/knowledge.h"

namespace meshwright {
namespace {

constexpr char kStudyId[] = "bench";
constexpr int kTrials = 100'000;
constexpr int kGroup = 1000;

std::string PlanBytes(int i) {
  v1::Plan plan;
  plan.set_data_parallel(1 << (i % 8));
  plan.set_tensor_parallel(1 << (i % 4));
  plan.set_pipeline_parallel(1 + i % 16);
  plan.set_micro_batch_size(1 + i % 3);
  plan.set_schedule("interleaved_1f1b");
  plan.mutable_recompute()->set_granularity("selective");
  return plan.SerializeAsString();
}

// No two trials are equally fast, every hundredth ran out of memory, every tenth is a repeat, and
// memory falls with the step time only roughly, so that the front is short.
absl::Status AddTrial(Recorder& recorder, int i) {
  const double place = static_cast<double>(i * 7919LL % kTrials) / kTrials;  // 7919 is prime
  const auto begun = recorder.BeginTrial(
      {.study_id = kStudyId,
       .purpose = i % 10 == 0 ? TrialPurpose::kReference : TrialPurpose::kSearch,
       .plan_key = std::string(80, 'k'),
       .plan_digest = fmt::format("{:016}", i),
       .plan = PlanBytes(i),
       .expected_step_time = Seconds(1 + place),
       .success_probability = 0.9,
       .launcher = "replay"});
  if (!begun.ok()) return begun.status();
  TrialEnding ending = {.study_id = kStudyId, .trial_number = begun->trial.number};
  ending.attempt.attempt_id = begun->attempt.id;
  ending.attempt.fencing_token = begun->attempt.fencing_token;
  ending.attempt.outcome = i % 100 == 99 ? Outcome::kOom : Outcome::kOk;
  if (i % 100 != 99) {
    ending.step_time = Seconds(1 + place);
    ending.peak_memory = Bytes{(std::int64_t{60} << 30) -
                               static_cast<std::int64_t>(place * (std::int64_t{40} << 30)) +
                               i * 104729LL % (std::int64_t{20} << 30)};
  }
  return recorder.FinishTrial(ending).status();
}

// A store with the study, in a folder that is removed at the end.
class ManyTrials {
 public:
  ManyTrials() {
    std::string name = (std::filesystem::temp_directory_path() / "http_bench.XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) return;
    folder_ = name;
    auto recorder = Recorder::Open({.path = path()});
    if (!recorder.ok() || !recorder->InsertStudy({.id = kStudyId}).ok()) return;
    for (int i = 0; i < kTrials; i += kGroup) {
      std::vector<StoreCall> calls;
      for (int k = i; k < i + kGroup; ++k) {
        calls.emplace_back([k](Recorder& open) { return AddTrial(open, k); });
      }
      for (const absl::Status& status : recorder->RunTogether(calls)) {
        if (!status.ok()) return;
      }
    }
    reader_ = Recorder::Open({.path = path(), .read_only = true});
  }
  ManyTrials(const ManyTrials&) = delete;
  ManyTrials& operator=(const ManyTrials&) = delete;
  ~ManyTrials() {
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }
  absl::StatusOr<Recorder>& reader() { return reader_; }

 private:
  [[nodiscard]] std::string path() const { return (folder_ / "bench.db").string(); }

  std::filesystem::path folder_;
  absl::StatusOr<Recorder> reader_ = absl::UnknownError("not filled");
};

// The part of the server that reads; null if the store could not be filled.
const ReadFace* Face() {
  static ManyTrials many;
  static const absl::StatusOr<Knowledge> knowledge = LoadKnowledge("");
  if (!many.reader().ok() || !knowledge.ok()) return nullptr;
  static const StoreAccess access = DirectAccess(*many.reader());
  static const ReadFace face = {
      .knowledge = *knowledge, .history = HistoryQueries(access), .feed = {}, .server_info = [] {
        return ServerInfo(*knowledge, 0);
      }};
  return &face;
}

void BM_Read(benchmark::State& state, std::string_view path, std::string_view query) {
  const ReadFace* const face = Face();
  if (face == nullptr) return state.SkipWithError("no store");
  const HttpRequest request = {
      .path = fmt::format("/v1/studies/{}/{}", kStudyId, path),
      .query = fmt::format("{}{}page_size={}", query, query.empty() ? "" : "&", state.range(0))};
  std::size_t bytes = 0;
  for (auto _ : state) {
    const HttpAnswer answer = AnswerRead(*face, request);
    if (answer.response.status != 200) return state.SkipWithError(answer.response.body.c_str());
    bytes = answer.response.body.size();
  }
  state.counters["bytes"] = static_cast<double>(bytes);
}

// Reads the page after the middle of the list.
void BM_ReadFromTheMiddle(benchmark::State& state) {
  const ReadFace* const face = Face();
  if (face == nullptr) return state.SkipWithError("no store");
  std::string token;
  for (int rows = 0; rows < kTrials / 2; rows += kGroup) {
    const auto page =
        face->history.ListTrials({.study_id = kStudyId}, TrialOrder::kNumber, kGroup, token);
    if (!page.ok()) return state.SkipWithError("no page");
    token = page->next_page_token;
  }
  BM_Read(state, "trials", "page_token=" + token);
}

void Pages(benchmark::internal::Benchmark* lists) {
  lists->ArgName("page")->Arg(50)->Arg(1000)->Unit(benchmark::kMillisecond)->UseRealTime();
}

#define READ(name, path, query) BENCHMARK_CAPTURE(BM_Read, name, path, query)->Apply(Pages)

READ(trials, "trials", "");
READ(trials_fastest, "trials", "order=fastest");
READ(trials_of_outcome, "trials", "outcome=oom");
READ(trials_of_purpose, "trials", "purpose=reference");
// The plan of the last trial: all others are looked at.
READ(trials_of_plan, "trials", "plan_digest=0000000000099999");
READ(pareto_trials, "paretoTrials", "");
BENCHMARK(BM_ReadFromTheMiddle)->Apply(Pages);

}  // namespace
}  // namespace meshwright
