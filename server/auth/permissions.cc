#include "server/auth/permissions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "search_space/base/status.h"

namespace meshwright {
namespace {

struct MethodRole {
  std::string_view method;
  Role role;
  bool is_audited = false;
};

constexpr std::array kMethods = {
    MethodRole{"Recommend", Role::kViewer},  // a submitter, if the answer is kept
    MethodRole{"EvaluatePlans", Role::kViewer},
    MethodRole{"ExplainPlan", Role::kViewer},
    MethodRole{"Sweep", Role::kViewer},
    MethodRole{"PlaceJobs", Role::kViewer},
    MethodRole{"ComparePlans", Role::kViewer},
    MethodRole{"GetStudy", Role::kViewer},
    MethodRole{"ListStudies", Role::kViewer},
    MethodRole{"WatchStudy", Role::kViewer},
    MethodRole{"ListPlans", Role::kViewer},
    MethodRole{"GetPlan", Role::kViewer},
    MethodRole{"CompareStudyPlans", Role::kViewer},
    MethodRole{"ListTrials", Role::kViewer},
    MethodRole{"GetTrial", Role::kViewer},
    MethodRole{"ListParetoTrials", Role::kViewer},
    MethodRole{"ListAttempts", Role::kViewer},
    MethodRole{"GetTrialLogs", Role::kViewer},
    MethodRole{"ListChips", Role::kViewer},
    MethodRole{"GetChip", Role::kViewer},
    MethodRole{"GetServerInfo", Role::kViewer},
    MethodRole{"ListCostModels", Role::kViewer},
    MethodRole{"ListJobReports", Role::kViewer},
    MethodRole{"ListMeasurements", Role::kViewer},
    MethodRole{"GetMeasurement", Role::kViewer},
    MethodRole{"ListCalibrations", Role::kViewer},
    MethodRole{"GetCalibration", Role::kViewer},
    MethodRole{"ExportHistory", Role::kViewer},
    MethodRole{"CreateStudy", Role::kSubmitter, true},  // an operator, if it runs jobs
    MethodRole{"CancelStudy", Role::kSubmitter, true},
    MethodRole{"PauseStudy", Role::kSubmitter, true},
    MethodRole{"ResumeStudy", Role::kSubmitter, true},
    MethodRole{"UpdateStudy", Role::kSubmitter, true},
    MethodRole{"DeleteStudy", Role::kOperator, true},
    MethodRole{"RetryTrials", Role::kOperator, true},
    MethodRole{"CreateJobReport", Role::kSubmitter, true},
    MethodRole{"BatchCreateJobReports", Role::kSubmitter, true},
    MethodRole{"ImportHistory", Role::kOperator, true},
    MethodRole{"RetractMeasurement", Role::kOperator, true},
    MethodRole{"BackupStore", Role::kAdmin, true},
    MethodRole{"ListAuditEvents", Role::kAdmin},
    MethodRole{"ListCallers", Role::kAdmin},
};

}  // namespace

std::optional<Role> NeededRole(std::string_view method) {
  const auto* const row = std::ranges::find(kMethods, method, &MethodRole::method);
  if (row == kMethods.end()) return std::nullopt;
  return row->role;
}

bool IsAudited(std::string_view method) {
  const auto* const row = std::ranges::find(kMethods, method, &MethodRole::method);
  return row != kMethods.end() && row->is_audited;
}

absl::Status CheckRole(const std::optional<KnownCaller>& caller, Role needed,
                       std::string_view method) {
  if (!caller.has_value()) {
    return absl::UnauthenticatedError(
        "this server answers only callers that it knows: send the token that its operator gave "
        "you as 'authorization: Bearer TOKEN'");
  }
  if (caller->role >= needed) return absl::OkStatus();
  return WithReason(
      absl::PermissionDeniedError(fmt::format("{} has the role {}; {} needs {}", caller->name,
                                              Word(caller->role), method, Word(needed))),
      "ROLE_TOO_LOW");
}

}  // namespace meshwright
