#pragma once

#include <grpcpp/support/status.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "meshwright/v1/service.pb.h"

namespace meshwright {

// Errors on the wire: google.rpc.Status in the trailing metadata with ErrorInfo{reason, domain
// "meshwright"} always, BadRequest with every wrong field, ResourceInfo of what was not found, and
// v1.Infeasible when nothing fits. Both directions stand here, so that a client has the very status
// that an embedded engine would have returned.

inline constexpr char kErrorDomain[] = "meshwright";

// FAILED_PRECONDITION with reason NO_FEASIBLE_PLAN that carries the whole message.
absl::Status InfeasibleStatus(const v1::Infeasible& infeasible);
// Returns what InfeasibleStatus attached; nullopt for any other status.
std::optional<v1::Infeasible> InfeasibleOf(const absl::Status& status);

// Names what was not found (`study`, `study-0123456789ab`).
absl::Status WithResource(absl::Status status, const std::string& type, const std::string& name);

// The study that a failed Recommend left in the history.
absl::Status WithStudyId(absl::Status status, const std::string& study_id);
std::optional<std::string> StudyIdOf(const absl::Status& status);

// Never UNKNOWN: that code becomes INTERNAL.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace meshwright
