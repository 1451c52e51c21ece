#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// What was measured and what was learnt from it (docs/store.md). Measurements are numbered, never
// changed and never deleted; whatever is learnt is a function of the measurements up to a number.
// Times are Unix milliseconds, UTC. Digests and fingerprints are the caller's.

// Who measured. kReplay is a measured table that stands in for a cluster; kImport a row that came
// without such a source.
enum class MeasurementSource { kTrial, kJobReport, kImport, kReplay };
template <>
std::span<const ChoiceWord<MeasurementSource>> Choices<MeasurementSource>();

// What results were measured of: a model, a workload, a cluster. Kept once, by its digest.
struct QuestionRecord {
  std::string digest = {};  // of the bytes and the fingerprints
  std::string model_name = {};
  std::string cluster_name = {};
  std::string chip = {};
  std::string framework = {};
  std::string framework_version = {};
  int device_count = 0;
  std::string job_fingerprint = {};       // equal for equal jobs, whatever they are called
  std::string hardware_fingerprint = {};  // of the cluster: chips, nodes, links, memory
  std::string software_fingerprint = {};  // of the framework, its version and its facts
  std::string chip_fingerprint = {};      // of the chip's figures in the catalogue
  std::string question = {};              // bytes; empty in lists of measurements
  bool operator==(const QuestionRecord&) const = default;
};

// What was expected when the plan was chosen. Absent: nothing was.
struct ExpectedFigures {
  std::optional<Seconds> step_time = {};
  std::optional<Seconds> low = {};  // the interval of the step time
  std::optional<Seconds> high = {};
  std::optional<Bytes> peak_memory = {};
  std::string calibration_id = {};  // empty: the model as it is
  bool operator==(const ExpectedFigures&) const = default;
};

struct MeasurementRecord {
  std::int64_t sequence = 0;  // 1, 2, ... in the order stored; the recorder assigns it
  std::string id = {};        // unique in every store, so that imports know it again
  MeasurementSource source = MeasurementSource::kTrial;
  QuestionRecord question = {};
  std::optional<std::string> study_id = {};  // need not be in this store
  std::string plan_key = {};
  std::string plan_digest = {};
  std::string plan = {};  // bytes
  Outcome outcome = Outcome::kOk;
  std::optional<Seconds> step_time = {};  // present with kOk
  std::optional<Bytes> peak_memory = {};
  ExpectedFigures expected = {};
  Seconds device_time = Seconds(0);            // devices x time
  std::int64_t time_ms = 0;                    // when it was measured
  std::optional<std::string> request_id = {};  // makes storing it idempotent
  std::string request_hash = {};
  std::string job_name = {};
  std::string note = {};
  bool operator==(const MeasurementRecord&) const = default;
};

// Returns INVALID_ARGUMENT if the id or a text is too long or cannot be shown, if a figure is not
// positive, or if a run that ended well has no step time.
absl::Status Validate(const MeasurementRecord& measurement);

struct InsertedMeasurement {
  MeasurementRecord measurement = {};
  bool is_new = true;  // false: the same request stored it before
};

enum class MeasurementOrder {
  kNewest,  // by sequence, the last stored first
  kOldest,
  kFastest,  // by step time, then the earlier stored; those that have one
  kLatest,   // by time_ms, the last measured first, then the later stored; of a chip and framework
             // without a sort
};

// All that is present must hold.
struct MeasurementFilter {
  std::optional<std::string> chip = {};
  std::optional<std::string> framework = {};
  std::optional<std::string> model_name = {};
  std::optional<std::string> job_fingerprint = {};
  std::optional<std::string> study_id = {};
  std::vector<MeasurementSource> sources = {};  // empty: all
  std::optional<Outcome> outcome = {};
  std::optional<std::int64_t> up_to_sequence = {};  // inclusive
  bool has_interval = false;                        // true: those with an expected interval
};

struct MeasurementPage {
  std::vector<MeasurementRecord> measurements = {};  // without the questions' bytes
  std::string next_page_token = {};
};

// What an answer leant on; `id` is a digest of what it was made of, so that the same is kept once.
struct CalibrationRecord {
  std::string id = {};
  std::string chip = {};
  std::string framework = {};
  std::string framework_version = {};
  std::string job_fingerprint = {};
  std::int64_t last_sequence = 0;  // the measurements up to it were looked at
  int measurement_count = 0;
  std::optional<double> time_ratio = {};
  std::optional<double> memory_ratio = {};
  std::string model_version = {};  // of the program's cost model
  std::int64_t create_time_ms = 0;
  std::string content = {};  // bytes; empty in lists
  bool operator==(const CalibrationRecord&) const = default;
};

struct CalibrationPage {
  std::vector<CalibrationRecord> calibrations = {};  // without `content`
  std::string next_page_token = {};
};

// What one call of Recorder::DeleteEstimates has deleted.
struct DeletedEstimates {
  std::int64_t plan_count = 0;
  std::int64_t event_count = 0;
  std::string last_study = {};  // the last study that was looked at; empty if none is left
};

}  // namespace meshwright
