#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// The records that the recorder keeps. Times are Unix milliseconds, UTC; the caller reads the
// clock. Bytes are serialized messages that the recorder does not interpret.

// The state of a study. kInterrupted: the process that ran the study is gone; the study may be
// resumed or ended. kPaused: somebody stopped it for a while. The last three states are terminal.
enum class StudyState {
  kQueued,
  kRunning,
  kPaused,
  kInterrupted,
  kCancelling,
  kSucceeded,
  kFailed,
  kCancelled
};
template <>
std::span<const ChoiceWord<StudyState>> Choices<StudyState>();

bool IsTerminal(StudyState state);

// The name, note and labels that people give a study. Nothing that a study does depends on them.
struct StudyRemarks {
  std::string display_name = {};
  std::string note = {};
  std::map<std::string, std::string> labels = {};
  std::int64_t edit_count = 0;  // changes so far
  bool operator==(const StudyRemarks&) const = default;
};

// One search: its question, its state and, once it has ended, its answer.
struct StudyRecord {
  std::string id = {};
  StudyState state = StudyState::kQueued;
  std::string outcome = {};  // the reason for its end; empty before
  std::string model_name = {};
  std::string cluster_name = {};
  std::string chip = {};                      // id of the first pool's chip
  std::vector<std::string> other_chips = {};  // ids of the other pools' chips, each once, in order
  int device_count = 0;
  std::optional<std::string> request_id = {};  // makes storing it idempotent
  std::string request_hash = {};               // hash of the whole request
  std::string question = {};                   // bytes; empty in lists
  std::optional<std::string> result = {};      // bytes; absent in lists
  std::string error_message = {};
  // The process that runs it, in the form that InterruptOrphans' callback expects; the one that has
  // its lease (leases.h), or had it last.
  std::string owner = {};
  std::int64_t create_time_ms = 0;
  std::optional<std::int64_t> start_time_ms = {};
  std::optional<std::int64_t> end_time_ms = {};
  std::optional<Seconds> search_time = {};
  std::optional<Seconds> best_step_time = {};
  std::optional<double> gain_over_baseline = {};  // baseline step time / best step time - 1
  std::string best_plan_digest = {};
  // The study may learn from the measurements up to this one, so that a resumed study gives the
  // same answer as one that was never stopped. SetStudyHistory sets it once.
  std::optional<std::int64_t> history_sequence = {};
  std::string creator = {};  // name of the caller who created it; empty: nobody known
  // Devices x seconds that its jobs may take; absent: it runs none, or has no limit.
  std::optional<Seconds> device_time_limit = {};
  std::int64_t revision = 0;  // revision of its newest event
  StudyRemarks remarks = {};
  bool operator==(const StudyRecord&) const = default;
};

// The studies that a list has: those that match every stated field.
struct StudyFilter {
  std::optional<StudyState> state = {};
  std::optional<std::string> outcome = {};
  // Part of the id, of its display name, or of the name of the model or the cluster; letters of
  // ASCII in either case.
  std::optional<std::string> text = {};
  std::optional<std::string> chip = {};            // id of the chip of some pool
  std::optional<std::string> creator = {};         // empty: nobody known
  std::map<std::string, std::string> labels = {};  // a study must have all of them
  std::optional<std::int64_t> create_time_from_ms = {};
  std::optional<std::int64_t> create_time_before_ms = {};
};

// A study that waits for a process that runs it again.
struct InterruptedStudy {
  std::string id = {};
  std::string creator = {};
  std::string question = {};   // bytes
  int interruption_count = 0;  // events in its journal
  bool is_to_pause = false;    // somebody wanted it to pause before it was interrupted
};

// The devices x seconds that the jobs of a creator's studies take.
struct CreatorUse {
  // Time of the jobs that ended since a moment. The time of a deleted study counts as a whole if
  // the study ended since then.
  Seconds used = Seconds(0);
  Seconds promised = Seconds(0);  // the rest of the limits of the studies that have not ended
  bool operator==(const CreatorUse&) const = default;
};

// A plan that a study ranked. Values for filters and ranking are columns; the rest is in the bytes.
struct PlanRecord {
  std::string study_id = {};
  int rank = 0;  // from 1; 0 is the baseline; unique in a study
  std::string plan_key = {};
  std::string plan_digest = {};
  std::string state = {};     // "estimated", "measured"
  std::string plan = {};      // bytes
  std::string estimate = {};  // bytes
  Seconds step_time = Seconds(0);
  Bytes peak_memory = {};
  Bytes reserved_memory = {};
  bool fits = false;
  bool operator==(const PlanRecord&) const = default;
};

// One line of a study's journal.
struct EventRecord {
  std::string study_id = {};
  std::int64_t revision = 0;  // 1, 2, 3, ... in each study; the recorder assigns it
  std::int64_t time_ms = 0;
  std::string kind = {};
  std::string payload = {};  // bytes
  bool operator==(const EventRecord&) const = default;
};

// The kind of the events that the recorder itself writes, one for each change of state, in the same
// transaction. Their payload is the word of the new state.
inline constexpr char kStateEventKind[] = "state";

// A change of a living study. A study that starts to run for the first time also gets its start
// time.
struct StudyUpdate {
  std::string study_id = {};
  StudyState state = StudyState::kRunning;  // not terminal
  std::int64_t time_ms = 0;
  std::optional<std::string> owner = {};  // absent: unchanged
};

// A change of what people say about a study. What is absent stays as it is.
struct StudyEdit {
  std::string study_id = {};
  std::optional<std::string> display_name = {};
  std::optional<std::string> note = {};
  std::map<std::string, std::string> labels = {};  // set or changed
  std::vector<std::string> removed_labels = {};
  std::optional<std::int64_t> edit_count = {};  // of the study that the author has seen
};

// The deletion of a study that has ended.
struct StudyDeletion {
  std::string study_id = {};
  std::optional<std::int64_t> edit_count = {};  // as in StudyEdit
  bool retracts_measurements = false;
  std::int64_t time_ms = 0;
};

// The rows of a deleted study.
struct DeletedStudy {
  int trial_count = 0;
  int retracted_count = 0;  // measurements that counted before
};

// A request to run failed trials of a study again.
struct StudyReopening {
  std::string study_id = {};
  std::vector<int> trial_numbers = {};  // empty: all failed trials of the search
  // Only those whose newest attempt ended with one of these classes; empty: all. Not with numbers.
  std::vector<std::string> failure_classes = {};
  std::optional<std::int64_t> edit_count = {};  // as in StudyEdit
  StudyState state = StudyState::kQueued;       // state that the study gets
  std::string owner = {};
  std::int64_t time_ms = 0;
};

struct ReopenedStudy {
  StudyRecord study = {};
  std::vector<int> trial_numbers = {};  // in ascending order
};

// The end of a study, stored as one transaction.
struct StudyEnding {
  std::string study_id = {};
  StudyState state = StudyState::kSucceeded;  // terminal
  std::int64_t time_ms = 0;
  std::string outcome = {};
  std::optional<std::string> result = {};
  std::string error_message = {};
  std::optional<Seconds> search_time = {};
  std::optional<Seconds> best_step_time = {};
  std::optional<double> gain_over_baseline = {};
  std::string best_plan_digest = {};
  std::vector<PlanRecord> plans = {};    // the final ranking
  std::vector<EventRecord> events = {};  // new events, stored before the final state event
};

}  // namespace meshwright
