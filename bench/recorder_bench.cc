// How fast the recorder stores durably: rows a second by the size of the transaction, on a file.
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "recorder/recorder.h"

namespace meshwright {
namespace {

constexpr char kStudyId[] = "bench";
// About the size of a ranked plan's row: its key, its plan and its estimate.
constexpr std::size_t kRowBytes = 600;

// A store with one study in a folder of its own, which goes with it.
class BenchStore {
 public:
  explicit BenchStore(benchmark::State& state) {
    std::string name = (std::filesystem::temp_directory_path() / "recorder_bench.XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      state.SkipWithError("no temporary folder");
      return;
    }
    folder_ = name;
    recorder_ = Recorder::Open({.path = (folder_ / "bench.db").string()});
    if (!recorder_.ok() || !recorder_->InsertStudy({.id = kStudyId}).ok()) {
      state.SkipWithError("no store");
    }
  }
  BenchStore(const BenchStore&) = delete;
  BenchStore& operator=(const BenchStore&) = delete;
  ~BenchStore() {
    std::error_code error;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, error);
  }

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

void BM_AppendPlans(benchmark::State& state) {
  BenchStore store(state);
  std::vector<PlanRecord> plans(static_cast<std::size_t>(state.range(0)),
                                {.study_id = kStudyId,
                                 .plan_key = std::string(80, 'k'),
                                 .plan_digest = std::string(16, 'd'),
                                 .state = "estimated",
                                 .plan = std::string(kRowBytes / 3, 'p'),
                                 .estimate = std::string(kRowBytes / 2, 'e'),
                                 .step_time = Seconds(1.5),
                                 .fits = true});
  int rank = 0;
  for (auto _ : state) {
    for (PlanRecord& plan : plans) plan.rank = ++rank;
    if (!store.recorder().AppendPlans(plans).ok()) {
      state.SkipWithError("append failed");
      break;
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

// Wall time, because the disk is what one waits for.
BENCHMARK(BM_AppendEvents)->ArgName("rows")->Arg(1)->Arg(100)->Arg(1000)->UseRealTime();
BENCHMARK(BM_AppendPlans)->ArgName("rows")->Arg(1)->Arg(100)->Arg(1000)->UseRealTime();

}  // namespace
}  // namespace meshwright
