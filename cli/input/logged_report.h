#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "meshwright/v1/history.pb.h"
#include "search_space/base/status.h"

namespace meshwright {

// The flags of `job report` that read the result from the job's log.
struct LoggedReportFlags {
  std::string log = {};         // path; empty: none
  std::string log_format = {};  // empty: the first that finds a time
  std::optional<int> warmup_steps = {};
  bool operator==(const LoggedReportFlags&) const = default;
};

// Completes a report by the log: its outcome is ok, and the step time and the peak of the memory
// are the log's unless they are stated. Adds all mistakes, and notes for people.
void ReadReportedLog(const LoggedReportFlags& flags, std::string_view site_chips,
                     v1::CreateJobReportRequest& report, std::vector<FieldViolation>& violations,
                     std::vector<std::string>& notes);

}  // namespace meshwright
