// Measures how fast the recorder stores durably (rows per second by the size of the transaction,
// calls per second by the number of threads), imports an export, and lists, filters and ranks
// 100,000 trials and measurements. All stores are files.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "recorder/history_records.h"
#include "recorder/import.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/store_access.h"
#include "recorder/transfer.h"
#include "recorder/trial_records.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "server/engine/store_writer.h"

namespace meshwright {
namespace {

constexpr char kStudyId[] = "bench";
// The approximate size of a ranked plan's row: its key, its plan and its estimate.
constexpr std::size_t kRowBytes = 600;

// A store with one study in a folder of its own, which is removed with it.
class BenchStore {
 public:
  BenchStore() {
    std::string name = (std::filesystem::temp_directory_path() / "recorder_bench.XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) return;
    folder_ = name;
    recorder_ = Recorder::Open({.path = path()});
    if (recorder_.ok() && !recorder_->InsertStudy({.id = kStudyId}).ok()) {
      recorder_ = absl::UnknownError("no study");
    }
  }
  explicit BenchStore(benchmark::State& state) : BenchStore() {
    if (!recorder_.ok()) state.SkipWithError("no store");
  }
  BenchStore(const BenchStore&) = delete;
  BenchStore& operator=(const BenchStore&) = delete;
  ~BenchStore() {
    std::error_code error;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, error);
  }

  [[nodiscard]] std::string path() const { return (folder_ / "bench.db").string(); }
  Recorder& recorder() { return *recorder_; }

 private:
  std::filesystem::path folder_;
  absl::StatusOr<Recorder> recorder_ = absl::UnknownError("not open");
};

void BM_AppendEvents(benchmark::State& state) {
  BenchStore store(state);
  const std::vector<EventRecord> events(static_cast<std::size_t>(state.range(0)),
                                        {.study_id = kStudyId,
                                         .time_ms = 1,
                                         .kind = "progress",
                                         .payload = std::string(kRowBytes, 'e')});
  for (auto _ : state) {
    if (!store.recorder().AppendEvents(events).ok()) {
      state.SkipWithError("append failed");
      break;
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

// Ends studies with that many plans. The studies are stored while the clock stands.
void BM_FinishStudy(benchmark::State& state) {
  BenchStore store(state);
  StudyEnding ending = {.time_ms = 1, .outcome = "improved"};
  ending.plans.assign(static_cast<std::size_t>(state.range(0)),
                      {.plan_key = std::string(80, 'k'),
                       .plan_digest = std::string(16, 'd'),
                       .state = "estimated",
                       .plan = std::string(kRowBytes / 3, 'p'),
                       .estimate = std::string(kRowBytes / 2, 'e'),
                       .step_time = Seconds(1.5),
                       .fits = true});
  int number = 0;
  for (auto _ : state) {
    state.PauseTiming();
    ending.study_id = fmt::format("study {}", ++number);
    for (std::size_t i = 0; i < ending.plans.size(); ++i) {
      ending.plans[i].study_id = ending.study_id;
      ending.plans[i].rank = static_cast<int>(i);
    }
    const bool is_stored = store.recorder().InsertStudy({.id = ending.study_id}).ok();
    state.ResumeTiming();
    if (!is_stored || !store.recorder().FinishStudy(ending).ok()) {
      state.SkipWithError("no ending");
      break;
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

// Makes calls with one event each from many threads. Each call is durable before it returns.
class Writers : public benchmark::Fixture {
 public:
  void SetUp(benchmark::State& state) override {
    if (state.thread_index() != 0) return;
    store_ = std::make_unique<BenchStore>(state);
    writer_ = std::make_unique<StoreWriter>(
        [this](auto calls) { return store_->recorder().RunTogether(calls); });
  }
  void TearDown(benchmark::State& state) override {
    if (state.thread_index() != 0) return;
    writer_.reset();
    store_.reset();
  }

 protected:
  std::unique_ptr<BenchStore> store_;
  std::unique_ptr<StoreWriter> writer_;
};

BENCHMARK_DEFINE_F(Writers, AppendEvent)(benchmark::State& state) {
  const std::vector<EventRecord> event = {{.study_id = kStudyId,
                                           .time_ms = 1,
                                           .kind = "progress",
                                           .payload = std::string(kRowBytes, 'e')}};
  for (auto _ : state) {
    const absl::Status status = writer_->Run(
        [&event](Recorder& recorder) { return recorder.AppendEvents(event).status(); });
    if (!status.ok()) {
      state.SkipWithError("append failed");
      break;
    }
  }
  state.SetItemsProcessed(state.iterations());
}

constexpr int kManyRows = 100'000;
constexpr int kGroup = 1000;
constexpr const char* kChips[] = {"nvidia-a100-sxm4-80gb", "nvidia-h100-sxm5-80gb",
                                  "amd-mi300x-192gb", "huawei-ascend-910b"};

// Makes a measurement of one of four chips and ten models. Every hundredth ran out of memory, and
// no two are equally fast.
MeasurementRecord MakeMeasurement(int i) {
  const int model = i % 10;
  const char* const chip = kChips[i / 10 % 4];
  MeasurementRecord row = {
      .id = fmt::format("measurement-{:08}", i),
      .source = i % 3 == 0 ? MeasurementSource::kTrial : MeasurementSource::kJobReport,
      .question = {.digest = fmt::format("{} {}", model, chip),
                   .model_name = fmt::format("model-{}", model),
                   .cluster_name = "cluster",
                   .chip = chip,
                   .framework = i % 20 < 10 ? "megatron" : "torchtitan",
                   .device_count = 64,
                   .job_fingerprint = fmt::format("job {} {}", model, chip),
                   .hardware_fingerprint = chip,
                   .question = std::string(kRowBytes, 'q')},
      .study_id = kStudyId,
      .plan_key = std::string(80, 'k'),
      .plan_digest = fmt::format("{:016}", i),
      .plan = std::string(kRowBytes / 3, 'p'),
      .step_time = Seconds(
          1 + 1e-5 * static_cast<double>(i * 7919LL % kManyRows)),  // 7919 is prime: a permutation
      .peak_memory = GiB(40),
      .time_ms = i};
  row.question.digest += row.question.framework;
  if (i % 100 == 99) {
    row.outcome = Outcome::kOom;
    row.step_time = {};
  }
  return row;
}

absl::Status AddTrial(Recorder& recorder, int i) {
  MeasurementRecord row = MakeMeasurement(i);
  const auto begun = recorder.BeginTrial({.study_id = kStudyId,
                                          .plan_key = row.plan_key,
                                          .plan_digest = row.plan_digest,
                                          .plan = row.plan,
                                          .launcher = "replay"});
  if (!begun.ok()) return begun.status();
  TrialEnding ending;
  ending.study_id = kStudyId;
  ending.trial_number = begun->trial.number;
  ending.attempt.attempt_id = begun->attempt.id;
  ending.attempt.fencing_token = begun->attempt.fencing_token;
  ending.attempt.outcome = row.outcome;
  ending.step_time = row.step_time;
  ending.measurement = std::move(row);
  return recorder.FinishTrial(ending).status();
}

// Returns the lines of an export of `count` measurements.
absl::StatusOr<std::vector<std::string>> ExportedLines(int count) {
  BenchStore store;
  std::vector<MeasurementRecord> rows;
  rows.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) rows.push_back(MakeMeasurement(i));
  if (const auto kept = store.recorder().InsertMeasurements(rows); !kept.ok()) {
    return kept.status();
  }
  std::vector<std::string> lines;
  const absl::Status exported = store.recorder().Export({}, [&lines](std::string_view line) {
    lines.emplace_back(line);
    return absl::OkStatus();
  });
  if (!exported.ok()) return exported;
  return lines;
}

// Imports into an empty store; bytes_per_second counts the file that the export would be.
void ImportMeasurements(benchmark::State& state) {
  const auto lines = ExportedLines(static_cast<int>(state.range(0)));
  if (!lines.ok()) return state.SkipWithError("no export");
  std::size_t bytes = 0;
  for (const std::string& line : *lines) bytes += line.size() + 1;
  for (auto _ : state) {
    state.PauseTiming();
    auto store = std::make_unique<BenchStore>(state);
    state.ResumeTiming();
    std::size_t next = 0;
    const LineSource source = {.next = [&]() -> absl::StatusOr<std::optional<std::string>> {
                                 return next < lines->size() ? std::optional((*lines)[next++])
                                                             : std::nullopt;
                               },
                               .rewind =
                                   [&next] {
                                     next = 0;
                                     return absl::OkStatus();
                                   }};
    const auto counts = ImportMeasurements(source, {}, DirectAccess(store->recorder()));
    if (!counts.ok()) return state.SkipWithError("import failed");
    state.PauseTiming();
    store.reset();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

// A study with 100,000 ended trials, each with its measurement. They are read as a server's reader
// does.
class ManyTrials {
 public:
  ManyTrials() {
    for (int i = 0; i < kManyRows; i += kGroup) {
      std::vector<StoreCall> calls;
      for (int k = i; k < i + kGroup; ++k) {
        calls.emplace_back([k](Recorder& recorder) { return AddTrial(recorder, k); });
      }
      for (const absl::Status& status : store_.recorder().RunTogether(calls)) {
        if (!status.ok()) return;
      }
    }
    reader_ = Recorder::Open({.path = store_.path(), .read_only = true});
  }
  [[nodiscard]] const absl::StatusOr<Recorder>& reader() const { return reader_; }

 private:
  BenchStore store_;
  absl::StatusOr<Recorder> reader_ = absl::UnknownError("not filled");
};

const absl::StatusOr<Recorder>& Reader() {
  static const ManyTrials many;
  return many.reader();
}

struct MeasurementList {
  MeasurementFilter filter = {};
  MeasurementOrder order = MeasurementOrder::kNewest;
};

void ListMeasurements(benchmark::State& state, const MeasurementList& list) {
  const auto& reader = Reader();
  if (!reader.ok()) return state.SkipWithError("no store");
  const int size = static_cast<int>(state.range(0));
  std::size_t rows = 0;
  for (auto _ : state) {
    const auto page = reader->ListMeasurements(list.filter, list.order, size, "");
    if (!page.ok()) return state.SkipWithError("list failed");
    rows = page->measurements.size();
  }
  state.counters["rows"] = static_cast<double>(rows);
}

struct TrialList {
  TrialFilter filter = {};
  TrialOrder order = TrialOrder::kNumber;
};

void ListTrials(benchmark::State& state, const TrialList& list) {
  const auto& reader = Reader();
  if (!reader.ok()) return state.SkipWithError("no store");
  const int size = static_cast<int>(state.range(0));
  std::size_t rows = 0;
  for (auto _ : state) {
    const auto page = reader->ListTrials(list.filter, list.order, size, "");
    if (!page.ok()) return state.SkipWithError("list failed");
    rows = page->trials.size();
  }
  state.counters["rows"] = static_cast<double>(rows);
}

void Pages(benchmark::internal::Benchmark* lists) {
  lists->ArgName("page")->Arg(50)->Arg(1000)->Unit(benchmark::kMillisecond)->UseRealTime();
}

#define LIST_MEASUREMENTS(name, ...) \
  BENCHMARK_CAPTURE(ListMeasurements, name, MeasurementList{__VA_ARGS__})->Apply(Pages)
#define LIST_TRIALS(name, ...) \
  BENCHMARK_CAPTURE(ListTrials, name, TrialList{__VA_ARGS__})->Apply(Pages)

LIST_TRIALS(list, .filter = {.study_id = kStudyId});
LIST_TRIALS(filter_outcome, .filter = {.study_id = kStudyId, .outcome = Outcome::kOom});
// The query finds no rows, so all rows that match the leading condition are examined.
LIST_TRIALS(filter_nothing_found,
            .filter = {.study_id = kStudyId, .state = TrialState::kOpen, .outcome = Outcome::kOk});
LIST_TRIALS(rank, .filter = {.study_id = kStudyId}, .order = TrialOrder::kFastest);
LIST_TRIALS(rank_nothing_found, .filter = {.study_id = kStudyId, .outcome = Outcome::kCrash},
            .order = TrialOrder::kFastest);
LIST_MEASUREMENTS(list, );
LIST_MEASUREMENTS(filter_chip_framework, .filter = {.chip = kChips[2], .framework = "megatron"});
LIST_MEASUREMENTS(filter_outcome, .filter = {.outcome = Outcome::kOom});
LIST_MEASUREMENTS(filter_nothing_found, .filter = {.sources = {MeasurementSource::kImport}});
LIST_MEASUREMENTS(filter_study_nothing_found,
                  .filter = {.study_id = kStudyId, .sources = {MeasurementSource::kImport}});
LIST_MEASUREMENTS(filter_study_model_nothing_found,
                  .filter = {.model_name = "none", .study_id = kStudyId});
LIST_MEASUREMENTS(rank, .order = MeasurementOrder::kFastest);
LIST_MEASUREMENTS(rank_job, .filter = {.job_fingerprint = "job 3 nvidia-a100-sxm4-80gb"},
                  .order = MeasurementOrder::kFastest);
LIST_MEASUREMENTS(rank_nothing_found, .filter = {.sources = {MeasurementSource::kImport}},
                  .order = MeasurementOrder::kFastest);
LIST_MEASUREMENTS(rank_chip_nothing_found,
                  .filter = {.chip = kChips[1], .sources = {MeasurementSource::kImport}},
                  .order = MeasurementOrder::kFastest);
LIST_MEASUREMENTS(rank_study_nothing_found,
                  .filter = {.study_id = kStudyId, .sources = {MeasurementSource::kImport}},
                  .order = MeasurementOrder::kFastest);

LIST_MEASUREMENTS(latest_chip_framework, .filter = {.chip = kChips[2], .framework = "megatron"},
                  .order = MeasurementOrder::kLatest);
LIST_MEASUREMENTS(latest_nothing_found,
                  .filter = {.chip = kChips[2], .framework = "megatron", .has_interval = true},
                  .order = MeasurementOrder::kLatest);

// Uses wall time, because callers wait for the disk.
BENCHMARK(BM_AppendEvents)->ArgName("rows")->Arg(1)->Arg(100)->Arg(1000)->UseRealTime();
BENCHMARK(BM_FinishStudy)->ArgName("rows")->Arg(1)->Arg(100)->Arg(1000)->UseRealTime();
BENCHMARK(ImportMeasurements)
    ->ArgName("rows")
    ->Arg(10'000)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_REGISTER_F(Writers, AppendEvent)->Threads(1)->Threads(8)->Threads(32)->UseRealTime();

}  // namespace
}  // namespace meshwright
