#include "cli/input/logged_report.h"

#include <fmt/format.h>

#include <utility>

#include "cli/input/known_chips.h"
#include "cli/input/read_file.h"
#include "cli/input/training_log.h"

namespace meshwright {

void ReadReportedLog(const LoggedReportFlags& flags, std::string_view site_chips,
                     v1::CreateJobReportRequest& report, std::vector<FieldViolation>& violations,
                     std::vector<std::string>& notes) {
  if (flags.log.empty()) return;
  if (report.has_outcome() && report.outcome() != "ok") {
    violations.push_back(
        {.field = "log",
         .description = fmt::format("{}; stated beside the outcome {}; must be absent, as only "
                                    "a run that ended well has a step time",
                                    flags.log, report.outcome())});
    return;
  }
  const auto text = ReadFor("log", flags.log, violations);
  if (!text.has_value()) return;
  LogOptions options = {.format = flags.log_format};
  if (flags.warmup_steps.has_value()) options.warmup_steps = *flags.warmup_steps;
  if (report.workload().has_global_batch_size()) {
    options.global_batch_size = report.workload().global_batch_size();
  }
  if (report.workload().has_sequence_length()) {
    options.sequence_length = report.workload().sequence_length();
  }
  v1::Cluster cluster = report.cluster();
  FillUsualNodes(site_chips, cluster);
  int device_count = 0;
  for (const v1::NodePool& pool : cluster.pools()) {
    device_count += pool.node_count() * pool.devices_per_node();
  }
  if (device_count > 0) options.device_count = device_count;
  const auto run = ReadTrainingLog(*text, options);
  if (!run.ok()) {
    for (FieldViolation& violation : FieldViolations(run.status())) {
      if (violation.field == "log") violation.description.insert(0, flags.log + "; ");
      violations.push_back(std::move(violation));
    }
    return;
  }
  report.set_outcome("ok");
  if (!report.has_step_time_seconds()) report.set_step_time_seconds(run->step_time.count());
  if (run->peak_memory.has_value() && !report.has_peak_memory_bytes()) {
    report.set_peak_memory_bytes(run->peak_memory->count);
  }
  notes.push_back(fmt::format(
      "{}: format {}; the median of {} times of steps is {:.4g} s; {} "
      "before them were left out as warm-up",
      flags.log, run->format, run->step_count, run->step_time.count(), run->warmup_count));
}

}  // namespace meshwright
