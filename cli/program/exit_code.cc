#include "cli/program/exit_code.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "search_space/base/status.h"
#include "server/process/exit_code.h"

namespace meshwright {
namespace {

struct ReasonCode {
  std::string_view reason;
  int exit_code;
};

// Reasons that say more than their canonical code: gRPC has one code for "nothing fits", "the study
// has ended" and "this store cannot be used".
constexpr std::array kReasonCodes = {
    ReasonCode{"USAGE", kExitUsage},
    ReasonCode{"NO_COST_MODELS", kExitUsage},
    ReasonCode{"NO_FEASIBLE_PLAN", kExitInfeasible},
    ReasonCode{"ALL_TRIALS_FAILED", kExitTrialsFailed},
    ReasonCode{"UNKNOWN_CHIP", kExitNotFound},
    ReasonCode{"DAMAGED_EXPORT", kExitInvalidInput},
    ReasonCode{"STORE_IN_USE", kExitUnavailable},
    ReasonCode{"STORE_NEEDS_SERVER", kExitUnavailable},
    ReasonCode{"STORE_BUSY", kExitUnavailable},
    ReasonCode{"STORE_FULL", kExitUnavailable},
    ReasonCode{"STORE_CORRUPT", kExitUnavailable},
    ReasonCode{"STORE_READ_ONLY", kExitUnavailable},
    ReasonCode{"STORE_IO", kExitUnavailable},
    ReasonCode{"FOREIGN_STORE", kExitUnavailable},
    ReasonCode{"NEWER_STORE", kExitUnavailable},
    ReasonCode{"OLDER_STORE", kExitUnavailable},
    ReasonCode{"NETWORK_FILE_SYSTEM", kExitUnavailable},
};

struct StatusExit {
  absl::StatusCode code;
  int exit_code;
};

// A code that is missing here is an error in our own code.
constexpr std::array kStatusExits = {
    StatusExit{absl::StatusCode::kOk, kExitDone},
    StatusExit{absl::StatusCode::kCancelled, kExitInterrupted},
    StatusExit{absl::StatusCode::kInvalidArgument, kExitInvalidInput},
    StatusExit{absl::StatusCode::kOutOfRange, kExitInvalidInput},
    // A question that this program does not answer yet; its reason says which one.
    StatusExit{absl::StatusCode::kUnimplemented, kExitInvalidInput},
    StatusExit{absl::StatusCode::kNotFound, kExitNotFound},
    StatusExit{absl::StatusCode::kAlreadyExists, kExitConflict},
    StatusExit{absl::StatusCode::kAborted, kExitConflict},
    StatusExit{absl::StatusCode::kFailedPrecondition, kExitConflict},
    StatusExit{absl::StatusCode::kResourceExhausted, kExitQuota},
    StatusExit{absl::StatusCode::kUnavailable, kExitUnavailable},
    StatusExit{absl::StatusCode::kPermissionDenied, kExitUnavailable},
    StatusExit{absl::StatusCode::kUnauthenticated, kExitUnavailable},
    StatusExit{absl::StatusCode::kDeadlineExceeded, kExitDeadline},
};

struct CodeWord {
  int exit_code;
  std::string_view word;
};

constexpr std::array kCodeWords = {
    CodeWord{kExitDone, "done"},
    CodeWord{kExitInternal, "internal"},
    CodeWord{kExitUsage, "usage"},
    CodeWord{kExitInvalidInput, "invalid_input"},
    CodeWord{kExitInfeasible, "infeasible"},
    CodeWord{kExitNotFound, "not_found"},
    CodeWord{kExitConflict, "conflict"},
    CodeWord{kExitQuota, "quota"},
    CodeWord{kExitUnavailable, "unavailable"},
    CodeWord{kExitDeadline, "deadline"},
    CodeWord{kExitTrialsFailed, "trials_failed"},
    CodeWord{kExitInterrupted, "interrupted"},
};

}  // namespace

int ExitCode(const absl::Status& status) {
  const auto reason = std::ranges::find(kReasonCodes, Reason(status), &ReasonCode::reason);
  if (reason != kReasonCodes.end()) return reason->exit_code;
  const auto code = std::ranges::find(kStatusExits, status.code(), &StatusExit::code);
  return code == kStatusExits.end() ? kExitInternal : code->exit_code;
}

std::string_view ExitReason(int exit_code) {
  const auto found = std::ranges::find(kCodeWords, exit_code, &CodeWord::exit_code);
  return found == kCodeWords.end() ? "internal" : found->word;
}

}  // namespace meshwright
