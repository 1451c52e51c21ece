#include "server/launchers/job_planner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/cluster.h"
#include "server/launchers/job_engines.h"
#include "server/launchers/jobs/job_environment.h"
#include "server/tuner/export/export.h"
#include "server/tuner/question/job_template.h"
#include "server/tuner/question/launch_config.h"

namespace meshwright {
namespace {

// A row of docs/train_step.md "Devices": the device kind of a vendor's chips.
struct VendorDevice {
  std::string_view vendor;
  std::string_view device;
};
constexpr VendorDevice kDevices[] = {{"cpu", "cpu"},    {"nvidia", "cuda"},   {"amd", "cuda"},
                                     {"huawei", "npu"}, {"cambricon", "mlu"}, {"moore", "musa"},
                                     {"intel", "hpu"}};

// The engine's limit is that much longer, so that the harness ends a job first and says why.
constexpr Seconds kEngineGrace(60);

std::string_view VendorOf(std::string_view chip) { return chip.substr(0, chip.find('-')); }

std::optional<std::string_view> DeviceOf(std::string_view chip) {
  for (const VendorDevice& row : kDevices) {
    if (row.vendor == VendorOf(chip)) return row.device;
  }
  return std::nullopt;
}

// Finds the folder installed beside the programs, or that of the source tree they were built in.
std::string OwnWorkloadsFolder() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const char* const from : {"../share/meshwright/workloads", "../../../workloads"}) {
    const std::filesystem::path folder = (program.parent_path() / from).lexically_normal();
    if (std::filesystem::exists(folder / "harness.py", error)) return folder.string();
  }
  return "";
}

bool AsksForFlags(const JobTemplate& job) {
  return std::ranges::find(job.command, kFlagsPlaceholder) != job.command.end();
}

// Splits launch flags into words as a shell does. Of a shell's syntax, exporters use quotes and a
// backslash at the end of a line.
std::vector<std::string> WordsOf(const std::string& flags) {
  std::vector<std::string> words;
  std::istringstream in(flags);
  for (std::string word; in >> word;) {
    if (word == "\\") continue;
    std::erase(word, '\'');
    words.push_back(std::move(word));
  }
  return words;
}

std::optional<std::string> ValueOf(std::string_view name, const JobPlanner& planner,
                                   const ParallelPlan& plan, const OpenAttempt& attempt) {
  const NodePool& pool = planner.problem.cluster.pools.front();
  const int per_node = planner.job.processes_per_node.value_or(pool.devices_per_node);
  const std::map<std::string_view, int> numbers = {
      {"context_parallel", plan.context_parallel},
      {"data_parallel", plan.data_parallel},
      {"expert_parallel", plan.expert_parallel},
      {"expert_tensor_parallel", plan.expert_tensor_parallel},
      {"global_batch_size", planner.problem.workload.global_batch_size},
      {"gradient_accumulation_steps",
       MicroBatchCount(plan, planner.problem.workload.global_batch_size)},
      {"micro_batch_size", plan.micro_batch_size},
      {"node_count", pool.node_count},
      {"pipeline_parallel", plan.pipeline_parallel},
      {"processes_per_node", per_node},
      {"sequence_length", planner.problem.workload.sequence_length},
      {"tensor_parallel", plan.tensor_parallel},
      {"virtual_pipeline", plan.virtual_pipeline},
      {"world_size", per_node * pool.node_count},
      {"zero_stage", plan.zero_stage}};
  if (const auto number = numbers.find(name); number != numbers.end()) {
    return std::to_string(number->second);
  }
  if (name == "context_parallel_kind") return std::string(Word(plan.context_parallel_kind));
  if (name == "recompute") return std::string(Word(plan.recompute.granularity));
  if (name == "schedule") return std::string(Word(plan.schedule));
  if (name == "sequence_parallel") return plan.sequence_parallel ? "true" : "false";
  if (name == "attempt") return attempt.id;
  if (name == "folder") return planner.job.folder;
  if (name == "workloads_folder") return planner.workloads_folder;
  if (name == "case_file") return fmt::format("{}/{}.case.json", planner.job.folder, attempt.id);
  return std::nullopt;
}

std::vector<std::string> ReferenceCommand(const JobPlanner& planner) {
  const JobMetrics& metrics = planner.job.metrics;
  const std::string& chip = planner.problem.cluster.pools.front().chip.id;
  std::vector<std::string> words = {
      planner.job.python, planner.workloads_folder + "/train_step.py", "--case", "{case_file}",
      "--device",         std::string(DeviceOf(chip).value())};  // CheckCommand has made sure of it
  // The reference step has the same defaults as the harness.
  if (metrics.warmup_steps.has_value()) {
    words.insert(words.end(), {"--warmup", std::to_string(*metrics.warmup_steps)});
  }
  if (metrics.max_steps.has_value()) {
    words.insert(words.end(), {"--steps", std::to_string(*metrics.max_steps)});
  }
  return words;
}

std::vector<std::string> HarnessCommand(const JobPlanner& planner, const OpenAttempt& attempt) {
  const JobTemplate& job = planner.job;
  const JobMetrics& metrics = job.metrics;
  std::vector<std::string> words = {job.python,  planner.workloads_folder + "/harness.py",
                                    "--attempt", attempt.id,
                                    "--token",   std::to_string(attempt.token),
                                    "--folder",  job.folder};
  const auto add = [&words](const char* flag, const auto& value) {
    if (value.has_value()) words.insert(words.end(), {flag, fmt::format("{}", *value)});
  };
  const auto seconds = [](const std::optional<Seconds>& time) {
    return time.has_value() ? std::optional(time->count()) : std::nullopt;
  };
  add("--format", metrics.format);
  add("--pattern", metrics.pattern);
  for (const std::string& field : metrics.fields) words.insert(words.end(), {"--field", field});
  add("--measuring-rank", metrics.measuring_rank);
  add("--warmup", metrics.warmup_steps);
  add("--min-steps", metrics.min_steps);
  add("--max-steps", metrics.max_steps);
  add("--interval-ratio", metrics.interval_ratio);
  add("--start-limit", seconds(metrics.start_limit));
  add("--hang-limit", seconds(metrics.hang_limit));
  add("--time-limit", std::optional(job.time_limit.count()));
  add("--global-batch-size", std::optional(planner.problem.workload.global_batch_size));
  words.emplace_back("--");
  return words;
}

absl::StatusOr<std::vector<std::string>> CommandOf(const JobPlanner& planner,
                                                   const ParallelPlan& plan,
                                                   const OpenAttempt& attempt) {
  std::vector<std::string> words = HarnessCommand(planner, attempt);
  const JobTemplate& job = planner.job;
  for (const std::string& word : job.command.empty() ? ReferenceCommand(planner) : job.command) {
    if (word == kFlagsPlaceholder) {
      ASSIGN_OR_RETURN(const LaunchConfig config,
                       ExportPlan(planner.problem.profile.name, planner.problem, plan));
      for (std::string& flag : WordsOf(config.text)) words.push_back(std::move(flag));
      continue;
    }
    words.push_back(WithPlaceholders(
        word, [&](std::string_view name) { return ValueOf(name, planner, plan, attempt); }));
  }
  return words;
}

void CheckCommand(const JobTemplate& job, const Problem& problem,
                  std::vector<FieldViolation>& found) {
  const std::string& chip = problem.cluster.pools.front().chip.id;
  if (job.command.empty() && !DeviceOf(chip).has_value()) {
    found.push_back({.field = "trials.job.command",
                     .description = fmt::format("missing; the reference step does not know "
                                                "how to use chip '{}'",
                                                chip)});
  }
  const std::vector<std::string> exporters = FlagFrameworks();
  const std::string& framework = problem.profile.name;
  if (AsksForFlags(job) && std::ranges::find(exporters, framework) == exporters.end()) {
    found.push_back(
        {.field = "trials.job.command",
         .description = fmt::format("{}; the flags of framework '{}' are not known, "
                                    "only those of {}",
                                    kFlagsPlaceholder, framework, fmt::join(exporters, ", "))});
  }
}

void CheckVariables(const JobTemplate& job, std::vector<FieldViolation>& found) {
  for (std::size_t i = 0; i < job.environment.size(); ++i) {
    const std::string& entry = job.environment[i];
    if (entry.find('=') != std::string::npos || std::getenv(entry.c_str()) != nullptr) continue;
    found.push_back({.field = fmt::format("trials.job.environment[{}]", i),
                     .description = fmt::format("{}; must be set where the launcher runs", entry)});
  }
}

absl::Status CannotWrite(const std::string& path, const std::string& why) {
  return InvalidFields({{.field = "trials.job.folder",
                         .description = fmt::format("{} cannot be written: {}", path, why)}});
}

}  // namespace

absl::StatusOr<JobPlanner> MakeJobPlanner(const TrialRequest& trials, const Problem& problem) {
  const JobTemplate& job = *trials.job;
  std::vector<FieldViolation> found;
  CheckCommand(job, problem, found);
  CheckVariables(job, found);
  if (const auto check = JobEngineOf(trials.launcher).check) check(job, problem.cluster, found);
  JobPlanner planner = {.job = job, .problem = problem, .workloads_folder = job.workloads_folder};
  if (planner.workloads_folder.empty()) planner.workloads_folder = OwnWorkloadsFolder();
  if (planner.workloads_folder.empty()) {
    found.push_back({.field = "trials.job.workloads_folder",
                     .description = "missing; harness.py was not found beside this program"});
  }
  std::error_code error;
  std::filesystem::create_directories(job.folder, error);
  if (error) {
    found.push_back(
        {.field = "trials.job.folder",
         .description = fmt::format("'{}' cannot be made: {}", job.folder, error.message())});
  }
  if (!found.empty()) return InvalidFields(found);
  return planner;
}

absl::Status CheckExpressible(const JobPlanner& planner, const ParallelPlan& plan) {
  if (!AsksForFlags(planner.job)) return absl::OkStatus();
  return ExportPlan(planner.problem.profile.name, planner.problem, plan).status();
}

absl::StatusOr<JobSpec> MakeJobSpec(const JobPlanner& planner, const ParallelPlan& plan,
                                    const OpenAttempt& attempt, const std::string& case_text) {
  const NodePool& pool = planner.problem.cluster.pools.front();
  const std::string path = *ValueOf("case_file", planner, plan, attempt);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << case_text << '\n';
  file.close();
  if (!file) return CannotWrite(path, "the disk is full, or it is not allowed");
  ASSIGN_OR_RETURN(std::vector<std::string> command, CommandOf(planner, plan, attempt));
  return JobSpec{
      .attempt_id = attempt.id,
      .folder = planner.job.folder,
      .command = std::move(command),
      .environment = EnvironmentOf(planner.job),
      .node_count = pool.node_count,
      .processes_per_node = planner.job.processes_per_node.value_or(pool.devices_per_node),
      .time_limit = planner.job.time_limit + kEngineGrace};
}

}  // namespace meshwright
