#include "server/metrics/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <mutex>
#include <ostream>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "server/auth/callers.h"

namespace meshwright {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;

// From an answer out of memory to the longest call, in steps of about two and a half.
const Histogram::BucketBoundaries& CallBuckets() {
  static const Histogram::BucketBoundaries kBuckets = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                       0.05,   0.1,   0.25,   0.5,   1,    2.5,
                                                       5,      10,    30,     60,    300,  600};
  return kBuckets;
}

// A write takes a sync of the disk, or several if many calls wait.
const Histogram::BucketBoundaries& WriteBuckets() {
  static const Histogram::BucketBoundaries kBuckets = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                       0.05,   0.1,   0.25,   0.5,   1,    5};
  return kBuckets;
}

// Around the ratio of an expectation that holds; beyond a half more or less, something is wrong.
const Histogram::BucketBoundaries& RatioBuckets() {
  static const Histogram::BucketBoundaries kBuckets = {0.5,  0.7, 0.8,  0.9, 0.95, 1,
                                                       1.05, 1.1, 1.25, 1.5, 2,    5};
  return kBuckets;
}

// Sources of answers (RecommendResponse.source); one that is not among them counts as other.
constexpr std::array<std::string_view, 5> kSources = {"exact_history", "cache", "model",
                                                      "transferred", "fallback"};

std::string SourceLabel(const std::string& source) {
  return std::ranges::find(kSources, source) == kSources.end() ? "other" : source;
}

// Callers are told apart by their roles; "none" has no role, as everybody if nobody must have one.
std::string RoleLabel(const std::optional<Role>& role) {
  return role.has_value() ? std::string(Word(*role)) : "none";
}

template <typename Metric>
prometheus::Family<Metric>& Add(Registry& registry, const char* name, const char* help) {
  if constexpr (std::is_same_v<Metric, Counter>) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  } else if constexpr (std::is_same_v<Metric, Gauge>) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
  } else {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
  }
}

void Write(std::ostream& text, const Registry& registry) {
  prometheus::TextSerializer().Serialize(text, registry.Collect());
}

// Adds the gauges of a reading to a registry that is made for it.
class ReadingGauges {
 public:
  explicit ReadingGauges(Registry& registry) : registry_(registry) {}

  void Set(const char* name, const char* help, double value) {
    Add<Gauge>(registry_, name, help).Add({}).Set(value);
  }
  template <typename Number>
  void SetKnown(const char* name, const char* help, std::optional<Number> value) {
    if (value.has_value()) Set(name, help, static_cast<double>(*value));
  }

  struct Row {
    const char* label = "";
    int waiting = 0;
    int running = 0;
  };
  // Sets the two states of each row.
  void Set(const char* name, const char* help, const char* label, std::initializer_list<Row> rows) {
    prometheus::Family<Gauge>& family = Add<Gauge>(registry_, name, help);
    for (const Row& row : rows) {
      family.Add({{label, row.label}, {"state", "waiting"}}).Set(row.waiting);
      family.Add({{label, row.label}, {"state", "running"}}).Set(row.running);
    }
  }

 private:
  Registry& registry_;
};

void SetReadings(const MetricReadings& now, ReadingGauges& gauges) {
  const auto& [searches, jobs] = now.studies;
  gauges.Set("meshwright_serving", "1 if health checks say SERVING, else 0.", now.serves ? 1 : 0);
  gauges.Set(
      "meshwright_studies", "Studies that wait for a thread, and those that have one.", "kind",
      {{"search", searches.waiting, searches.running}, {"jobs", jobs.waiting, jobs.running}});
  gauges.Set("meshwright_pool_calls", "Calls that wait for a worker, and those that have one.",
             "pool",
             {{"answers", now.calls.waiting_calls, now.calls.running_calls},
              {"heavy", now.calls.waiting_heavy_calls, now.calls.running_heavy_calls}});
  gauges.Set("meshwright_watches", "Open watches of studies over gRPC.", now.calls.open_watches);
  gauges.Set("meshwright_answer_cache_bytes", "Bytes of the answers that are remembered.",
             static_cast<double>(now.answer_cache_bytes));
  gauges.SetKnown("meshwright_store_size_bytes", "Bytes of the store's files.", now.store_bytes);
  gauges.SetKnown("meshwright_store_free_bytes", "Bytes that are free on the store's file system.",
                  now.store_free_bytes);
  gauges.SetKnown("meshwright_backup_timestamp_seconds",
                  "Time of the newest copy of the store in --backup-folder, since 1970-01-01 UTC.",
                  now.newest_backup_seconds);
  // Prometheus' own names for these.
  gauges.SetKnown("process_resident_memory_bytes",
                  "Bytes of the program's memory that are resident.", now.process.resident_bytes);
  gauges.SetKnown("process_open_fds", "Open files of the program.", now.process.open_files);
}

}  // namespace

struct Metrics::State {
  Registry registry;
  prometheus::Family<Counter>& calls =
      Add<Counter>(registry, "meshwright_calls_total",
                   "Calls that have ended, by method, protocol, code and "
                   "role of the caller.");
  prometheus::Family<Histogram>& call_time =
      Add<Histogram>(registry, "meshwright_call_duration_seconds",
                     "Time of calls from their arrival to their end, with the time in a queue.");
  prometheus::Family<Counter>& answers =
      Add<Counter>(registry, "meshwright_answers_total", "Answers to Recommend, by their source.");
  prometheus::Family<Histogram>& answer_time =
      Add<Histogram>(registry, "meshwright_answer_duration_seconds",
                     "Time of answers to Recommend, by their source.");
  Histogram& store_writes = Add<Histogram>(registry, "meshwright_store_write_duration_seconds",
                                           "Time of groups of writes until they are durable.")
                                .Add({}, WriteBuckets());
  prometheus::Family<Histogram>& measured_ratio = Add<Histogram>(
      registry, "meshwright_measured_ratio",
      "Measured step time divided by the expected one, of trials and job reports, by chip.");
  std::vector<std::string> chips;
  mutable std::mutex mutex;
  std::function<MetricReadings()> read = {};  // guarded by the mutex
};

Metrics::Metrics(const std::string& version, std::vector<std::string> chips)
    : state_(std::make_unique<State>()) {
  state_->chips = std::move(chips);
  Add<Gauge>(state_->registry, "meshwright_build_info", "1, with the version of the program.")
      .Add({{"version", version}})
      .Set(1);
  // These are there before the first answer, so that its rate can be taken.
  for (const char* source : {"cache", "model"}) state_->answers.Add({{"source", source}});
}

Metrics::~Metrics() = default;

void Metrics::ReadBy(std::function<MetricReadings()> read) {
  const std::lock_guard lock(state_->mutex);
  state_->read = std::move(read);
}

void Metrics::NoteCall(const EndedCall& call) {
  const std::string method(call.method);
  const std::string role = RoleLabel(call.role);
  state_->calls
      .Add({{"method", method},
            {"protocol", std::string(call.protocol)},
            {"code", absl::StatusCodeToString(call.code)},
            {"role", role}})
      .Increment();
  state_->call_time.Add({{"method", method}, {"role", role}}, CallBuckets())
      .Observe(call.time.count());
  if (call.source.empty()) return;
  const std::string source = SourceLabel(call.source);
  state_->answers.Add({{"source", source}}).Increment();
  state_->answer_time.Add({{"source", source}}, CallBuckets()).Observe(call.time.count());
}

void Metrics::NoteStoreWrite(std::chrono::duration<double> time) {
  state_->store_writes.Observe(time.count());
}

void Metrics::NoteMeasurement(const MeasurementRecord& measurement) {
  const std::optional<Seconds>& step_time = measurement.step_time;
  const std::optional<Seconds>& expected = measurement.expected.step_time;
  if (measurement.source == MeasurementSource::kReplay) return;
  if (measurement.outcome != Outcome::kOk || !step_time.has_value() || !expected.has_value()) {
    return;
  }
  const std::string& chip = measurement.question.chip;
  const bool is_known = std::ranges::find(state_->chips, chip) != state_->chips.end();
  state_->measured_ratio.Add({{"chip", is_known ? chip : "other"}}, RatioBuckets())
      .Observe(*step_time / *expected);
}

std::string Metrics::Text() const {
  std::ostringstream text;
  Write(text, state_->registry);
  std::function<MetricReadings()> read;
  {
    const std::lock_guard lock(state_->mutex);
    read = state_->read;
  }
  if (read) {
    Registry now;
    ReadingGauges gauges(now);
    SetReadings(read(), gauges);
    Write(text, now);
  }
  return text.str();
}

}  // namespace meshwright
