#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"
#include "server/launchers/jobs/attempt_end.h"
#include "server/tuner/question/attempt_journal.h"
#include "server/tuner/question/trial.h"

namespace meshwright {

// The harness's account of an attempt (docs/harness.md).
struct AttemptResult {
  std::string attempt_id = {};
  std::int64_t token = 0;
  std::optional<FailureClass> failure = {};  // absent if it was measured
  std::optional<Ran> run = {};               // set if it was measured
  std::string message = {};
  std::string log_head = {};
  std::string log_tail = {};
  AttemptQuality quality = {};
  std::optional<Seconds> run_time = {};  // as the harness measured it
};

// Parses a result. DATA_LOSS if the text is none.
absl::StatusOr<AttemptResult> ParseAttemptResult(const std::string& text);

// Reads <folder>/<attempt_id>.result.json; nullopt if there is none.
absl::StatusOr<std::optional<AttemptResult>> ReadAttemptResult(const std::string& folder,
                                                               const std::string& attempt_id);

// Reads the first and last 64 KiB that an attempt without a result has printed: from its masked
// <attempt_id>.out, or from the job's <attempt_id>.log if the harness never ran. Both parts are
// cleaned by CleanText and do not overlap; both are empty if there is neither file.
struct LogEnds {
  std::string head = {};
  std::string tail = {};
};
LogEnds ReadLogEnds(const std::string& folder, const std::string& attempt_id);

// Reads why a rank that does not measure has failed by itself, from
// <folder>/<attempt_id>.rank<N>.failure.json with this token. If several ranks have, the class that
// comes first in FailureClass counts, because it says most. Returns nullopt if none has.
std::optional<AttemptResult> ReadRankFailure(const std::string& folder,
                                             const std::string& attempt_id, std::int64_t token);

}  // namespace meshwright
