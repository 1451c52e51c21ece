#pragma once

#include <optional>
#include <string>
#include <vector>

#include "meshwright/v1/catalog.pb.h"
#include "recorder/trial_records.h"
#include "server/engine/queue/quota.h"
#include "server/engine/store_files.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// The facts about a server that its options decide.
struct ServerFacts {
  std::vector<std::string> cost_models = {};        // names
  std::vector<std::string> job_templates = {};      // names
  std::optional<double> study_device_seconds = {};  // absent: no limit
  StudyQuota quota = {};
  // The limits of what all callers together, and those on one machine, may have open.
  int connection_limit = 0;
  int host_connection_limit = 0;
  int watch_limit = 0;
  int host_watch_limit = 0;
  StoreSize store = {};
  bool allows_jobs = false;
  std::optional<std::vector<OpenJobs>> open_jobs = {};  // absent: the store cannot be read
};

// Returns how a server describes itself: what the program knows, what it was given, and its limits,
// by the constants that enforce them.
v1::GetServerInfoResponse DescribeServer(const Knowledge& knowledge, int store_schema_version,
                                         const ServerFacts& facts);

}  // namespace meshwright
