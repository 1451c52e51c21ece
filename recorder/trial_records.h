#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/history_records.h"
#include "recorder/records.h"
#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// A study's trials and their attempts (docs/store/records.md). Times are Unix milliseconds, UTC.

// kOpen: begun and not ended, even if no attempt at it runs.
enum class TrialState { kOpen, kEnded };
template <>
std::span<const ChoiceWord<TrialState>> Choices<TrialState>();

// A plan that is to be measured.
struct TrialIntent {
  std::string study_id = {};
  TrialPurpose purpose = TrialPurpose::kSearch;
  std::string plan_key = {};
  std::string plan_digest = {};  // unique among the kSearch trials of a study
  std::string plan = {};         // bytes
  // The expectation when the plan was chosen.
  Seconds expected_step_time = Seconds(0);
  double success_probability = 0;
  std::string launcher = {};
  std::int64_t time_ms = 0;
};

struct TrialRecord {
  std::string study_id = {};
  int number = 0;  // 1, 2, ... in the order of beginning; the recorder assigns it
  TrialPurpose purpose = TrialPurpose::kSearch;
  std::string plan_key = {};
  std::string plan_digest = {};
  std::string plan = {};  // bytes
  Seconds expected_step_time = Seconds(0);
  double success_probability = 0;
  TrialState state = TrialState::kOpen;
  std::optional<Outcome> outcome = {};
  std::optional<Seconds> step_time = {};
  std::optional<Bytes> peak_memory = {};
  Seconds device_time = Seconds(0);  // sum over all its attempts
  std::int64_t start_time_ms = 0;
  std::optional<std::int64_t> end_time_ms = {};
  std::optional<std::int64_t> measurement_sequence = {};
  // The failure of its newest attempt.
  std::string failure_class = {};
  std::string failure_message = {};
  bool operator==(const TrialRecord&) const = default;
};

struct AttemptRecord {
  // The recorder assigns it: "<study>-t<trial>-a<number>", which suits a scheduler's job name.
  std::string id = {};
  std::string study_id = {};
  int trial_number = 0;
  int number = 0;  // 1, 2, ... within its trial
  // Grows over the whole store; a holder of an older token may no longer write about the trial.
  std::int64_t fencing_token = 0;
  AttemptState state = AttemptState::kIntended;
  std::string launcher = {};
  std::string external_id = {};  // the launcher's id; empty until known
  std::int64_t create_time_ms = 0;
  std::optional<std::int64_t> submit_time_ms = {};
  std::optional<std::int64_t> start_time_ms = {};
  std::optional<std::int64_t> end_time_ms = {};
  std::optional<Outcome> outcome = {};
  std::string failure_class = {};
  std::string message = {};  // the reason for its end, as a sentence
  Seconds device_time = Seconds(0);
  std::string log_head = {};
  std::string log_tail = {};
  std::vector<std::string> nodes = {};  // nodes that it ran on; names have no commas
  AttemptQuality quality = {};
  bool operator==(const AttemptRecord&) const = default;
};

struct BegunTrial {
  TrialRecord trial = {};
  AttemptRecord attempt = {};
};

// Another attempt at an open trial. An earlier attempt that has not ended ends with it, as
// cancelled and with failure class "superseded", because nobody will report on it any more.
struct AttemptIntent {
  std::string study_id = {};
  int trial_number = 0;
  std::string launcher = {};
  std::int64_t time_ms = 0;
};
inline constexpr std::string_view kSuperseded = "superseded";

struct AttemptUpdate {
  std::string attempt_id = {};
  std::int64_t fencing_token = 0;
  AttemptState state = AttemptState::kSubmitted;  // or kRunning; never an earlier state
  std::optional<std::string> external_id = {};    // absent: unchanged
  std::vector<std::string> nodes = {};            // empty: unchanged
  std::int64_t time_ms = 0;                       // time of the change
};

struct AttemptEnding {
  std::string attempt_id = {};
  std::int64_t fencing_token = 0;
  Outcome outcome = Outcome::kOk;
  std::string failure_class = {};
  std::string message = {};
  Seconds device_time = Seconds(0);
  std::string log_head = {};
  std::string log_tail = {};
  std::vector<std::string> nodes = {};
  AttemptQuality quality = {};
  std::int64_t time_ms = 0;
};

// The end of a trial together with its newest attempt, whose outcome becomes the trial's. It is
// stored in one transaction with the measurement and the events.
struct TrialEnding {
  std::string study_id = {};
  int trial_number = 0;
  AttemptEnding attempt = {};
  std::optional<Seconds> step_time = {};
  std::optional<Bytes> peak_memory = {};
  std::optional<MeasurementRecord> measurement = {};
  std::vector<EventRecord> events = {};
};

struct EndedTrial {
  TrialRecord trial = {};
  std::vector<std::int64_t> revisions = {};  // revisions of the events
  bool is_new = true;                        // false: the same ending was stored before
};

// The jobs of a launcher that have not ended.
struct OpenJobs {
  std::string launcher = {};
  std::int64_t waiting_count = 0;  // not known to run yet
  std::int64_t running_count = 0;
  bool operator==(const OpenJobs&) const = default;
};

enum class TrialOrder {
  kNumber,
  kFastest,  // ordered by step time, then number; only those with a step time
};

struct TrialFilter {
  std::string study_id = {};
  std::optional<TrialState> state = {};
  std::optional<Outcome> outcome = {};
  std::optional<TrialPurpose> purpose = {};
  std::optional<std::string> plan_digest = {};
};

struct TrialPage {
  std::vector<TrialRecord> trials = {};
  std::string next_page_token = {};
};

}  // namespace meshwright
