#pragma once

#include <grpcpp/support/status.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "meshwright/v1/service.pb.h"

namespace meshwright {

// These functions convert errors to and from google.rpc.Status in the trailing metadata. It always
// has ErrorInfo{reason, domain "meshwright"}. BadRequest lists bad fields, ResourceInfo names what
// was not found, and v1.Infeasible is attached if nothing fits. Both directions are here, so that a
// client gets the status that an embedded engine would have returned, with long texts cut.

inline constexpr char kErrorDomain[] = "meshwright";

// Returns FAILED_PRECONDITION with reason NO_FEASIBLE_PLAN, which carries the whole message.
absl::Status InfeasibleStatus(const v1::Infeasible& infeasible);
// Returns what InfeasibleStatus attached, or nullopt for any other status.
std::optional<v1::Infeasible> InfeasibleOf(const absl::Status& status);

// Adds the type and the name of what was not found (`study`, `study-0123456789ab`).
absl::Status WithResource(absl::Status status, const std::string& type, const std::string& name);

// Returns DATA_LOSS with reason STORE_CORRUPT: "the stored `what` '`id`' cannot be read".
absl::Status DamagedInStore(std::string_view what, std::string_view id);

// Adds the time after which the same request may succeed.
absl::Status WithRetryAfter(absl::Status status, std::chrono::milliseconds time);
std::optional<std::chrono::milliseconds> RetryAfterOf(const absl::Status& status);

// Returns UNAVAILABLE with reason SERVER_STARTING, and the time after which to ask again.
absl::Status ServerStarting();

// Adds the study that a failed Recommend left in the history.
absl::Status WithStudyId(absl::Status status, const std::string& study_id);
std::optional<std::string> StudyIdOf(const absl::Status& status);

// Converts a status for gRPC. The code UNKNOWN becomes INTERNAL.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace meshwright
