#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// Measurements and what was learnt from them (docs/store/records.md). Measurements are numbered,
// never changed and never deleted; a wrong one is marked by a retraction. Everything that is learnt
// is a function of the measurements and retractions up to a number. Times are Unix milliseconds,
// UTC. The caller computes digests and fingerprints.

// The source of a measurement. kReplay is a table of measurements that stands in for a cluster;
// kImport is a row that came without such a source.
enum class MeasurementSource { kTrial, kJobReport, kImport, kReplay };
template <>
std::span<const ChoiceWord<MeasurementSource>> Choices<MeasurementSource>();

// The question that was measured: a model, a workload, a cluster. It is stored once per digest.
struct QuestionRecord {
  std::string digest = {};  // digest of the bytes and the fingerprints
  std::string model_name = {};
  std::string cluster_name = {};
  std::string chip = {};
  std::string framework = {};
  std::string framework_version = {};
  int device_count = 0;
  std::string job_fingerprint = {};       // equal for equal jobs, whatever their names
  std::string hardware_fingerprint = {};  // the cluster's chips, nodes, links and memory
  std::string software_fingerprint = {};  // the framework, its version and its facts
  std::string chip_fingerprint = {};      // the chip's figures in the catalogue
  std::string question = {};              // bytes; empty in lists of measurements
  bool operator==(const QuestionRecord&) const = default;
};

// The figures that were expected when the plan was chosen. Absent fields had no expectation.
struct ExpectedFigures {
  std::optional<Seconds> step_time = {};
  std::optional<Seconds> low = {};  // the interval of the step time
  std::optional<Seconds> high = {};
  std::optional<Bytes> peak_memory = {};
  std::string calibration_id = {};  // empty: the uncalibrated model
  bool operator==(const ExpectedFigures&) const = default;
};

// A measurement that was marked as wrong. Its sequence is drawn from the numbers of measurements,
// so that a number says which measurements and retractions were there.
struct Retraction {
  std::int64_t sequence = 0;  // the recorder assigns it
  std::int64_t time_ms = 0;
  std::string reason = {};
  bool operator==(const Retraction&) const = default;
};

// The most bytes of the name of a job, a note and the reason of a retraction.
inline constexpr std::size_t kMaxMeasurementText = 4000;

// Returns a description of the mistake in the reason of a retraction, for a FieldViolation, or
// nullopt if there is none.
std::optional<std::string> RetractionReasonMistake(std::string_view reason);

struct MeasurementRecord {
  std::int64_t sequence = 0;  // 1, 2, ... in the order of storing; the recorder assigns it
  std::string id = {};        // unique in every store, so that imports recognize it
  MeasurementSource source = MeasurementSource::kTrial;
  QuestionRecord question = {};
  std::optional<std::string> study_id = {};  // the study need not be in this store
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
  std::optional<Retraction> retraction = {};  // absent: the measurement counts
  bool operator==(const MeasurementRecord&) const = default;
};

// Returns INVALID_ARGUMENT if the id or a text is too long or cannot be shown, if a figure is not
// positive, if a run that ended well has no step time, or if a retraction has no proper reason.
absl::Status Validate(const MeasurementRecord& measurement);

struct InsertedMeasurement {
  MeasurementRecord measurement = {};
  bool is_new = true;  // false: the same request stored it before
};

enum class MeasurementOrder {
  kNewest,  // ordered by sequence, the last stored first
  kOldest,
  kFastest,  // ordered by step time, then the earlier stored; only those with a step time
  // Ordered by time_ms, the last measured first, then the later stored. The rows of a chip and
  // framework need no sorting.
  kLatest,
};

// A filter whose present fields must all match.
struct MeasurementFilter {
  std::optional<std::string> chip = {};
  std::optional<std::string> framework = {};
  std::optional<std::string> model_name = {};
  std::optional<std::string> job_fingerprint = {};
  std::optional<std::string> study_id = {};
  std::vector<MeasurementSource> sources = {};  // empty: all
  std::optional<Outcome> outcome = {};
  std::optional<std::int64_t> up_to_sequence = {};  // inclusive
  bool has_interval = false;                        // true: only those with an expected interval
  std::optional<bool> is_retracted = {};            // true: only marked ones; false: only others
  // Retractions after this sequence are not seen: their measurements count and have no mark.
  std::optional<std::int64_t> retracted_up_to = {};
};

struct MeasurementPage {
  std::vector<MeasurementRecord> measurements = {};  // without the questions' bytes
  std::string next_page_token = {};
};

// The calibration that an answer used. `id` is a digest of its inputs, so that equal ones are
// stored once.
struct CalibrationRecord {
  std::string id = {};
  std::string chip = {};
  std::string framework = {};
  std::string framework_version = {};
  std::string job_fingerprint = {};
  std::int64_t last_sequence = 0;  // it considers the measurements up to this one
  int measurement_count = 0;
  std::optional<double> time_ratio = {};
  std::optional<double> memory_ratio = {};
  std::string model_version = {};  // version of the program's cost model
  std::int64_t create_time_ms = 0;
  std::string content = {};  // bytes; empty in lists
  bool operator==(const CalibrationRecord&) const = default;
};

struct CalibrationPage {
  std::vector<CalibrationRecord> calibrations = {};  // without `content`
  std::string next_page_token = {};
};

// The result of one call of Recorder::DeleteEstimates.
struct DeletedEstimates {
  std::int64_t plan_count = 0;
  std::int64_t event_count = 0;
  std::string last_study = {};  // the last study that was considered; empty if none is left
};

}  // namespace meshwright
