#include "server/rpc/services/server_info.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "recorder/trial_records.h"
#include "server/convert/catalog_wire.h"
#include "server/rpc/calls/limits.h"
#include "server/rpc/calls/request_limits.h"
#include "server/tuner/question/launcher_facts.h"

namespace meshwright {
namespace {

struct Limit {
  std::string_view name;
  std::int64_t value;
  std::string_view unit;
  std::string_view scope;
};

// docs/limits.md describes these.
std::vector<Limit> LimitsOf(const ServerFacts& facts) {
  std::vector<Limit> limits = {
      {"request_bytes", kMaxRequestBytes, "bytes", "request"},
      {"case_count", kMaxCases, "elements", "request"},
      {"history_row_count", kMaxRows, "elements", "request"},
      {"list_element_count", kMaxElements, "elements", "request"},
      {"list_text_count", kMaxTexts, "elements", "request"},
      {"element_count", kMaxElementsInAll, "elements", "request"},
      {"line_bytes", kMaxTextBytes, "bytes", "request"},
      {"text_bytes", kMaxLinesBytes, "bytes", "request"},
      {"answer_bytes", kMaxMessageBytes, "bytes", "answer"},
      {"connection_count", facts.connection_limit, "connections", "server"},
      {"host_connection_count", facts.host_connection_limit, "connections", "host"},
      {"connection_call_count", kCallsOfConnection, "calls", "connection"},
      {"watch_count", facts.watch_limit, "watches", "server"},
      {"host_watch_count", facts.host_watch_limit, "watches", "host"},
      {"connection_watch_count", kWatchesOfConnection, "watches", "connection"},
      {"waiting_call_count", kWaitingCalls, "calls", "server"},
      {"connection_waiting_call_count", kWaitingCallsOfConnection, "calls", "connection"},
      {"waiting_heavy_call_count", kWaitingHeavyCalls, "calls", "server"},
      {"connection_waiting_heavy_call_count", kWaitingHeavyCallsOfConnection, "calls",
       "connection"},
  };
  if (facts.study_device_seconds.has_value()) {
    limits.push_back({"study_device_seconds",
                      static_cast<std::int64_t>(*facts.study_device_seconds), "device seconds",
                      "study"});
  }
  limits.push_back({"caller_study_count", facts.quota.open_study_count, "open studies", "caller"});
  if (facts.quota.device_time_per_day.has_value()) {
    limits.push_back({"caller_device_seconds",
                      static_cast<std::int64_t>(facts.quota.device_time_per_day->count()),
                      "device seconds in 24 hours", "caller"});
  }
  return limits;
}

void AddLaunchers(const ServerFacts& facts, v1::GetServerInfoResponse& info) {
  for (const LauncherFacts& launcher : Launchers()) {
    if (!launcher.runs_jobs) continue;
    v1::LauncherLoad& load = *info.add_launchers();
    load.set_launcher(std::string(launcher.name));
    load.set_is_allowed(facts.allows_jobs);
    if (!facts.open_jobs.has_value()) continue;
    const auto open = std::ranges::find(*facts.open_jobs, launcher.name, &OpenJobs::launcher);
    const OpenJobs jobs = open == facts.open_jobs->end() ? OpenJobs() : *open;
    load.set_waiting_job_count(jobs.waiting_count);
    load.set_running_job_count(jobs.running_count);
  }
}

}  // namespace

v1::GetServerInfoResponse DescribeServer(const Knowledge& knowledge, int store_schema_version,
                                         const ServerFacts& facts) {
  v1::GetServerInfoResponse info = ServerInfo(knowledge, store_schema_version, facts.store);
  info.mutable_cost_models()->Assign(facts.cost_models.begin(), facts.cost_models.end());
  info.mutable_job_templates()->Assign(facts.job_templates.begin(), facts.job_templates.end());
  for (const Limit& limit : LimitsOf(facts)) {
    v1::ServerLimit& wire = *info.add_limits();
    wire.set_name(std::string(limit.name));
    wire.set_value(limit.value);
    wire.set_unit(std::string(limit.unit));
    wire.set_scope(std::string(limit.scope));
  }
  AddLaunchers(facts, info);
  return info;
}

}  // namespace meshwright
