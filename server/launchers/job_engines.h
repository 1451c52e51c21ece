#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/cluster.h"
#include "server/launchers/jobs/job_engine.h"
#include "server/tuner/question/job_template.h"

namespace meshwright {

// How a launcher runs jobs. What else the product knows of it is a row of Launchers()
// (server/tuner/question/launcher_facts.h).
struct JobEngineRow {
  std::string_view launcher;
  Seconds poll_interval = Seconds(0);  // unless the request states one
  // Time for which a job that the engine does not know may still come.
  Seconds lost_limit = Seconds(0);
  // Adds what is wrong with a job, as far as can be told before one is submitted; paths start at
  // the request. Null: there is nothing to check.
  void (*check)(const JobTemplate& job, const ClusterSpec& cluster,
                std::vector<FieldViolation>& found) = nullptr;
  absl::StatusOr<std::unique_ptr<JobEngine>> (*open)(const JobTemplate& job,
                                                     const ClusterSpec& cluster) = nullptr;
};

std::span<const JobEngineRow> JobEngines();

// Returns the row of a launcher that runs jobs.
const JobEngineRow& JobEngineOf(std::string_view launcher);

}  // namespace meshwright
