#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"
#include "server/launchers/jobs/attempt_end.h"
#include "server/tuner/question/trial.h"
#include "server/tuner/trials/attempt_journal.h"

namespace meshwright {

// What the harness wrote of an attempt (docs/harness.md).
struct AttemptResult {
  std::string attempt_id = {};
  std::int64_t token = 0;
  std::optional<FailureClass> failure = {};  // absent: it was measured
  std::optional<Ran> run = {};               // when it was measured
  std::string message = {};
  std::string log_head = {};
  std::string log_tail = {};
  AttemptQuality quality = {};
  std::optional<Seconds> run_time = {};  // of the harness
};

// DATA_LOSS for what is not the text of a result.
absl::StatusOr<AttemptResult> ParseAttemptResult(const std::string& text);

// <folder>/<attempt_id>.result.json; nothing when there is none.
absl::StatusOr<std::optional<AttemptResult>> ReadAttemptResult(const std::string& folder,
                                                               const std::string& attempt_id);

// The first and last 64 KiB of what an attempt printed, of which the harness left no result: of its
// masked <attempt_id>.out, or, where the harness never came to run, of the job's <attempt_id>.log.
// As CleanText leaves it; the tail does not repeat the head; empty when there is neither.
struct LogEnds {
  std::string head = {};
  std::string tail = {};
};
LogEnds ReadLogEnds(const std::string& folder, const std::string& attempt_id);

// Why a rank that does not measure failed by itself, of <folder>/<attempt_id>.rank<N>.failure.json
// of this token: where several did, the class that is first in FailureClass, which says most.
// Nothing when none did.
std::optional<AttemptResult> ReadRankFailure(const std::string& folder,
                                             const std::string& attempt_id, std::int64_t token);

}  // namespace meshwright
