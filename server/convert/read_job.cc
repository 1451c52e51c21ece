#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

#include "search_space/base/units.h"
#include "server/convert/message_reader.h"
#include "server/convert/read_wire.h"
#include "server/tuner/question/job_template.h"
#include "server/tuner/question/kubernetes_options.h"
#include "server/tuner/question/launcher_facts.h"
#include "server/tuner/question/trial.h"

namespace meshwright {
namespace {

constexpr Seconds kLongestJob(30 * 86400.0);
// The harness runs under the same limit and takes about 20 MB itself.
constexpr Bytes kLeastMemoryLimit{64 << 20};
// The variables that an engine sets itself (server/launchers/jobs/job_engine.h).
constexpr std::string_view kEngineVariables[] = {"LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "RANK",
                                                 "WORLD_SIZE"};
constexpr std::string_view kOwnPrefix = "MESHWRIGHT_";

void RequireAbsolute(const MessageReader& in, std::string_view field, const std::string& path) {
  if (path.empty() || path.starts_with('/')) return;
  in.Add(field, fmt::format("'{}'; must be an absolute path", path));
}

void ReadLimit(const MessageReader& in, std::string_view field, std::optional<Seconds>& limit) {
  const std::optional<double> value = in.Double(field);
  if (!value.has_value()) return;
  limit = Seconds(*value);
  if (!(*value > 0 && *limit <= kLongestJob)) {
    in.Add(field, fmt::format("{}; must be > 0 and <= {}", *value, kLongestJob.count()));
  }
}

void ReadLimit(const MessageReader& in, std::string_view field, Seconds& limit) {
  std::optional<Seconds> stated;
  ReadLimit(in, field, stated);
  limit = stated.value_or(limit);
}

void ReadCount(const MessageReader& in, std::string_view field, int least,
               std::optional<int>& count) {
  count = in.Int(field);
  if (count.has_value() && *count < least) {
    in.Add(field, fmt::format("{}; must be >= {}", *count, least));
  }
}

void ReadMemoryLimit(const MessageReader& in, std::optional<Bytes>& limit) {
  constexpr std::string_view kField = "memory_limit_bytes";
  const std::optional<std::int64_t> bytes = in.Int64(kField);
  if (!bytes.has_value()) return;
  limit = Bytes{*bytes};
  if (*limit >= kLeastMemoryLimit) return;
  in.Add(kField, fmt::format("{}; must be >= {}", *bytes, kLeastMemoryLimit.count));
}

std::string ReadVisibleDevices(const MessageReader& in) {
  constexpr std::string_view kField = "visible_devices_variable";
  const std::optional<std::string> stated = in.Text(kField);
  if (!stated.has_value()) return "";
  if (stated->find('=') != std::string::npos || VariableMistake(*stated).has_value()) {
    in.Add(kField,
           fmt::format("'{}'; must be a variable's name, of letters, digits and _", *stated));
  } else if (stated->starts_with(kOwnPrefix) ||
             std::ranges::find(kEngineVariables, *stated) != std::end(kEngineVariables)) {
    in.Add(kField, fmt::format("'{}'; must be absent, because the launcher sets it", *stated));
  }
  return *stated;
}

// Refuses what the harness would refuse on the nodes, with the same words (docs/harness.md).
void CheckFormat(const MessageReader& in, const JobMetrics& metrics) {
  const std::string format = metrics.format.value_or("meshwright");
  const std::vector<std::string> known = {"meshwright", "json",      "megatron",
                                          "flagscale",  "deepspeed", "regex"};
  if (std::ranges::find(known, format) == known.end()) {
    in.AddWordMistake("format", format, "meshwright, json, megatron, flagscale, deepspeed, regex");
    return;
  }
  if (metrics.pattern.has_value() != (format == "regex")) {
    in.Add("pattern", format == "regex" ? "missing; required with format regex"
                                        : "stated; only for format regex");
  }
  if (metrics.fields.empty() == (format == "json")) {
    in.Add("fields", format == "json" ? "missing; required with format json"
                                      : "stated; only for format json");
  }
}

JobMetrics ReadMetrics(const MessageReader& in) {
  JobMetrics metrics = {.format = in.Text("format"),
                        .pattern = in.Text("pattern"),
                        .fields = in.Texts("fields"),
                        .measuring_rank = in.Text("measuring_rank")};
  CheckFormat(in, metrics);
  const std::string rank = metrics.measuring_rank.value_or("0");
  const bool is_number =
      !rank.empty() && rank.size() < 10 &&
      std::ranges::all_of(rank, [](unsigned char c) { return std::isdigit(c) != 0; });
  if (rank != "last" && !is_number) {
    in.Add("measuring_rank", fmt::format("'{}'; must be a number or last", rank));
  }
  ReadCount(in, "warmup_steps", 0, metrics.warmup_steps);
  ReadCount(in, "min_steps", 1, metrics.min_steps);
  ReadCount(in, "max_steps", 1, metrics.max_steps);
  if (metrics.max_steps.value_or(1 << 30) < metrics.min_steps.value_or(1)) {
    in.Add("max_steps",
           fmt::format("{}; must be >= min_steps ({})", *metrics.max_steps, *metrics.min_steps));
  }
  metrics.interval_ratio = in.Double("interval_ratio");
  if (const double ratio = metrics.interval_ratio.value_or(0.5); !(ratio > 0 && ratio < 1)) {
    in.Add("interval_ratio", fmt::format("{}; must be between 0 and 1", ratio));
  }
  ReadLimit(in, "start_limit_seconds", metrics.start_limit);
  ReadLimit(in, "hang_limit_seconds", metrics.hang_limit);
  return metrics;
}

KubernetesOptions ReadKubernetes(const MessageReader& in) {
  KubernetesOptions options = {.server = in.Required("server", in.Text("server")),
                               .token_file = in.Text("token_file").value_or(""),
                               .ca_file = in.Text("ca_file").value_or(""),
                               .name_space = in.Required("namespace", in.Text("namespace")),
                               .image = in.Required("image", in.Text("image")),
                               .queue = in.Text("queue").value_or(""),
                               .device_resource = in.Text("device_resource").value_or(""),
                               .devices_per_node = in.Int("devices_per_node"),
                               .volume_claim = in.Text("volume_claim").value_or(""),
                               .mount_path = in.Text("mount_path").value_or("")};
  options.job_template = in.Text("job_template").value_or(options.job_template);
  const std::vector<std::string> labels = in.Texts("labels");
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::size_t equals = labels[i].find('=');
    if (equals == std::string::npos) {
      in.Add(fmt::format("labels[{}]", i), fmt::format("'{}'; must be KEY=VALUE", labels[i]));
      continue;
    }
    const auto [key, is_new] =
        options.labels.emplace(labels[i].substr(0, equals), labels[i].substr(equals + 1));
    if (!is_new) in.Add(fmt::format("labels[{}]", i), fmt::format("{}; stated twice", key->first));
  }
  // kubernetes_check.h checks the limits of these values.
  const auto read = [&in](std::string_view field, Seconds& limit) {
    limit = Seconds(in.Double(field).value_or(limit.count()));
  };
  read("request_limit_seconds", options.request_limit);
  read("hopeless_limit_seconds", options.hopeless_limit);
  read("start_limit_seconds", options.start_limit);
  read("deletion_limit_seconds", options.deletion_limit);
  return options;
}

// Refuses the options of a job that its launcher does not take.
void CheckOptions(const MessageReader& job, const JobTemplate& stated,
                  const LauncherFacts& launcher) {
  const auto refuse = [&](std::string_view field, std::string_view value,
                          std::string_view instead = "") {
    job.Add(field, fmt::format("{}; launcher {} does not use it{}{}", value, launcher.name,
                               instead.empty() ? "" : ": ", instead));
  };
  if (!launcher.takes_engine_flags && !stated.engine_flags.empty()) {
    refuse("engine_flags", "stated");
  }
  if (!launcher.runs_here) {
    if (!stated.slots_folder.empty()) refuse("slots_folder", "stated");
    if (stated.memory_limit.has_value()) {
      refuse("memory_limit_bytes", std::to_string(stated.memory_limit->count),
             launcher.memory_advice);
    }
    if (!stated.visible_devices_variable.empty()) {
      refuse("visible_devices_variable", fmt::format("'{}'", stated.visible_devices_variable),
             "it shows a job its devices itself");
    }
  }
  if (launcher.needs_kubernetes_options && !stated.kubernetes.has_value()) {
    job.Add("kubernetes", fmt::format("missing; required with launcher {}", launcher.name));
  }
  if (!launcher.needs_kubernetes_options && stated.kubernetes.has_value()) {
    refuse("kubernetes", "stated");
  }
}

}  // namespace

JobTemplate ReadJob(const MessageReader& in) {
  JobTemplate job = {.folder = in.Required("folder", in.Text("folder")),
                     .command = in.Texts("command"),
                     .environment = in.Texts("environment"),
                     .engine_flags = in.Texts("engine_flags")};
  RequireAbsolute(in, "folder", job.folder);
  for (std::size_t i = 0; i < job.command.size(); ++i) {
    if (const auto mistake = PlaceholderMistake(job.command[i])) {
      in.Add(fmt::format("command[{}]", i), *mistake);
    }
  }
  for (std::size_t i = 0; i < job.environment.size(); ++i) {
    if (const auto mistake = VariableMistake(job.environment[i])) {
      in.Add(fmt::format("environment[{}]", i), *mistake);
    }
  }
  if (in.Text("template_name").has_value()) {
    in.Add("template_name", "stated; only a server has templates");
  }
  ReadCount(in, "processes_per_node", 1, job.processes_per_node);
  ReadLimit(in, "time_limit_seconds", job.time_limit);
  ReadLimit(in, "queue_limit_seconds", job.queue_limit);
  ReadLimit(in, "poll_interval_seconds", job.poll_interval);
  job.python = in.Text("python").value_or(job.python);
  job.workloads_folder = in.Text("workloads_folder").value_or("");
  RequireAbsolute(in, "workloads_folder", job.workloads_folder);
  job.slots_folder = in.Text("slots_folder").value_or("");
  RequireAbsolute(in, "slots_folder", job.slots_folder);
  ReadMemoryLimit(in, job.memory_limit);
  job.visible_devices_variable = ReadVisibleDevices(in);
  if (const auto metrics = in.Child("metrics")) job.metrics = ReadMetrics(*metrics);
  if (const auto site = in.Child("kubernetes")) job.kubernetes = ReadKubernetes(*site);
  return job;
}

void ReadTrialJob(const MessageReader& in, TrialRequest& trials) {
  const std::optional<MessageReader> job = in.Child("job");
  if (job.has_value()) trials.job = ReadJob(*job);
  const LauncherFacts* const launcher = FindLauncher(trials.launcher);
  if (launcher == nullptr) return;
  if (!launcher->runs_jobs) {
    if (job.has_value()) {
      in.Add("job", fmt::format("stated; launcher {} runs no jobs", launcher->name));
    }
    return;
  }
  if (job.has_value()) {
    CheckOptions(*job, *trials.job, *launcher);
  } else {
    in.Add("job",
           fmt::format("missing; launcher {} needs to know how to run a plan", launcher->name));
  }
  if (!trials.replay.empty()) {
    in.Add("replay",
           fmt::format("stated; launcher {} runs jobs and replays no rows", launcher->name));
  }
}

}  // namespace meshwright
