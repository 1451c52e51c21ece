#include "server/launchers/job_planner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/cluster.h"
#include "server/launchers/kubernetes/kubernetes_check.h"
#include "server/launchers/kubernetes/kubernetes_object.h"
#include "server/launchers/kubernetes/kubernetes_template.h"
#include "server/tuner/export/export.h"
#include "server/tuner/question/job_template.h"
#include "server/tuner/question/kubernetes_options.h"

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
      ASSIGN_OR_RETURN(const std::string flags,
                       ExportPlan(planner.problem.profile.name, planner.problem, plan));
      for (std::string& flag : WordsOf(flags)) words.push_back(std::move(flag));
      continue;
    }
    words.push_back(WithPlaceholders(
        word, [&](std::string_view name) { return ValueOf(name, planner, plan, attempt); }));
  }
  return words;
}

std::map<std::string, std::string> EnvironmentOf(const JobTemplate& job) {
  std::map<std::string, std::string> environment;
  for (const std::string& entry : job.environment) {
    const std::size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    const char* const own = std::getenv(name.c_str());
    if (equals != std::string::npos) {
      environment[name] = entry.substr(equals + 1);
    } else if (own != nullptr) {
      environment[name] = own;
    }
  }
  return environment;
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
  const std::vector<std::string> exporters = ExportFrameworks();
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

// Checks what can be checked of a Kubernetes job before one is submitted.
void CheckKubernetes(const JobTemplate& job, int node_count, std::vector<FieldViolation>& found) {
  const std::string site = "trials.job.kubernetes.";
  const KubernetesOptions& options = *job.kubernetes;
  std::vector<FieldViolation> mistakes = MistakesOf(options);
  if (mistakes.empty()) {
    const auto job_template = LoadKubernetesTemplate(options.job_template);
    if (!job_template.ok()) {
      mistakes.push_back({"job_template", std::string(job_template.status().message())});
    } else {
      const JobSpec like = {.attempt_id = "a", .folder = job.folder, .node_count = node_count};
      for (const FieldViolation& mistake : MistakesOf(*job_template, options, like)) {
        const bool is_folder = mistake.field == "folder";
        found.push_back({.field = is_folder ? "trials.job.folder" : "cluster.pools[0].node_count",
                         .description = mistake.description});
      }
    }
  }
  for (const FieldViolation& mistake : mistakes) {
    found.push_back({.field = site + mistake.field, .description = mistake.description});
  }
}

// Returns the devices that the variable for visible devices lists where the launcher runs, or
// nullopt if it is not set there.
std::optional<std::vector<std::string>> ListedDevices(const JobTemplate& job) {
  const std::string& variable = job.visible_devices_variable;
  if (variable.empty()) return std::nullopt;
  const std::map<std::string, std::string> of_job = EnvironmentOf(job);
  const auto stated = of_job.find(variable);
  const char* const own = std::getenv(variable.c_str());
  std::string list;
  if (stated != of_job.end()) {
    list = stated->second;
  } else if (own != nullptr) {
    list = own;
  } else {
    return std::nullopt;
  }
  std::istringstream in(list);
  std::vector<std::string> names;
  for (std::string name; std::getline(in, name, ',');) names.push_back(std::move(name));
  return names;
}

// Checks what launcher local needs on this machine.
void CheckLocal(const JobTemplate& job, const ClusterSpec& cluster,
                std::vector<FieldViolation>& found) {
  const int node_count = cluster.pools.front().node_count;
  if (node_count != 1) {
    found.push_back({.field = "cluster.pools[0].node_count",
                     .description = fmt::format("{}; must be 1: launcher {} runs jobs only on this "
                                                "machine",
                                                node_count, kLocalLauncher)});
  }
  const bool is_named = !job.slots_folder.empty();
  const absl::Status made = MakeSlotsFolder(is_named ? job.slots_folder : UsersSlotsFolder());
  if (!made.ok()) {
    found.push_back(
        {.field = "trials.job.slots_folder", .description = std::string(made.message())});
  }
  const auto listed = ListedDevices(job);
  const auto device_count = static_cast<std::size_t>(DeviceCount(cluster));
  if (listed.has_value() && listed->size() < device_count) {
    found.push_back({.field = "trials.job.visible_devices_variable",
                     .description = fmt::format("{}={}; must list at least {} devices, or not be "
                                                "set where the launcher runs",
                                                job.visible_devices_variable,
                                                fmt::join(*listed, ","), device_count)});
  }
  if (!listed.has_value()) return;
  std::set<std::string> once(listed->begin(), listed->end());
  if (once.size() < listed->size() || once.contains("")) {
    found.push_back(
        {.field = "trials.job.visible_devices_variable",
         .description = fmt::format("{}={}; must name each device once",
                                    job.visible_devices_variable, fmt::join(*listed, ","))});
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
  const int node_count = problem.cluster.pools.front().node_count;
  if (trials.launcher == kKubernetesLauncher) CheckKubernetes(job, node_count, found);
  if (trials.launcher == kLocalLauncher) CheckLocal(job, problem.cluster, found);
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

LocalEngineOptions LocalOptionsOf(const JobTemplate& job, int device_count) {
  LocalEngineOptions options = {
      .slots_folder = job.slots_folder.empty() ? UsersSlotsFolder() : job.slots_folder,
      .slot_count = device_count,
      .slots_per_job = device_count,
      .visible_devices_variable = job.visible_devices_variable,
      .memory_limit = job.memory_limit};
  if (auto listed = ListedDevices(job); listed.has_value()) {
    options.slot_count = static_cast<int>(listed->size());
    options.device_names = *std::move(listed);
  } else if (!job.visible_devices_variable.empty()) {
    for (int i = 0; i < device_count; ++i) options.device_names.push_back(std::to_string(i));
  }
  return options;
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
