#include "cli/input/launch_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <map>
#include <utility>

#include "cli/input/input_files.h"
#include "search_space/base/status.h"
#include "search_space/spec/model.h"
#include "server/convert/convert.h"
#include "server/convert/message_reader.h"
#include "server/convert/read_wire.h"
#include "server/tuner/import/import.h"
#include "server/tuner/import/imported_job.h"

namespace meshwright {
namespace {

std::string Name(const std::string& path) {
  return path == "-" ? "stdin" : std::filesystem::path(path).filename().string();
}

// Returns the devices of a cluster that states the sizes of all its pools.
std::optional<int> DeviceCountOf(const v1::Cluster& cluster) {
  int devices = 0;
  for (const v1::NodePool& pool : cluster.pools()) {
    if (!pool.has_node_count() || !pool.has_devices_per_node()) return std::nullopt;
    devices += pool.node_count() * pool.devices_per_node();
  }
  return devices > 0 ? std::optional(devices) : std::nullopt;
}

// The model is read without its mistakes, which the resolver of the question finds.
std::optional<ModelSpec> ModelBeside(const StatedBeside& beside) {
  if (!beside.model.has_value()) return std::nullopt;
  std::vector<FieldViolation> found;
  return ReadModel(MessageReader(*beside.model, "model", found));
}

absl::StatusOr<std::map<std::string, std::string>> Variables(const LaunchFileFlags& flags) {
  std::map<std::string, std::string> variables;
  for (const std::string& text : flags.variables) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return InvalidFields({{.field = "set", .description = text + "; must be NAME=VALUE"}});
    }
    variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

// Returns the fields in which two descriptions of one model differ.
std::vector<FieldViolation> Contradictions(const ModelSpec& stated, const ImportedJob& job,
                                           const std::string& file) {
  std::vector<FieldViolation> found;
  if (!job.model.has_value()) return found;
  const ModelSpec& read = *job.model;
  const auto compare = [&](std::string_view field, int own, int other) {
    if (own == other) return;
    found.push_back({.field = fmt::format("model.{}", field),
                     .description = fmt::format("{} in --model and {} in {}", own, other, file)});
  };
  compare("layer_count", stated.layer_count, read.layer_count);
  compare("hidden_size", stated.hidden_size, read.hidden_size);
  compare("attention_head_count", stated.attention_head_count, read.attention_head_count);
  compare("kv_head_count", stated.kv_head_count, read.kv_head_count);
  compare("moe.expert_count", stated.moe.value_or(MoeSpec()).expert_count,
          read.moe.value_or(MoeSpec()).expert_count);
  return found;
}

std::vector<std::string> NotesOf(const ImportedJob& job, const std::string& file) {
  std::vector<std::string> notes;
  const std::string size = job.devices.has_value() ? fmt::format(", {} devices", *job.devices) : "";
  notes.push_back(fmt::format("{}: read as {}{}; its plan is the baseline", file,
                              job.workload.framework_name.value_or(""), size));
  for (const std::string& note : job.notes) notes.push_back(fmt::format("{}: {}", file, note));
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const UnusedKey& key : job.unused) by_reason[key.reason].push_back(key.key);
  for (const auto& [reason, keys] : by_reason) {
    notes.push_back(reason.empty()
                        ? fmt::format("{}: not known, and not used: {}", file, fmt::join(keys, ", "))
                        : fmt::format("{}: not used ({}): {}", file, reason, fmt::join(keys, ", ")));
  }
  return notes;
}

}  // namespace

absl::StatusOr<LaunchQuestion> ReadLaunchText(const LaunchFileFlags& flags, std::string_view text,
                                              const StatedBeside& beside) {
  ASSIGN_OR_RETURN(auto variables, Variables(flags));
  const std::string file = Name(flags.path);
  const std::filesystem::path folder = std::filesystem::path(flags.path).parent_path();
  ImportRequest request = {.file = file,
                           .text = std::string(text),
                           .variables = std::move(variables),
                           .framework = beside.framework,
                           .model = ModelBeside(beside),
                           .devices = DeviceCountOf(beside.cluster)};
  request.open_file = [&folder](const std::string& path) {
    // As the script has it: from where it runs, or else beside it.
    auto own = ReadTextFile(path == "-" ? "./-" : path);
    return own.ok() ? own : ReadTextFile((folder / path).string());
  };
  if (beside.workload.has_global_batch_size()) {
    request.global_batch_size = beside.workload.global_batch_size();
  }
  ASSIGN_OR_RETURN(const ImportedJob job, ImportJob(request));
  LaunchQuestion question = {
      .workload = ToWire(job.workload), .plan = ToWire(job.plan), .notes = NotesOf(job, file)};
  question.workload.MergeFrom(beside.workload);
  std::vector<FieldViolation> violations;
  if (request.model.has_value()) {
    question.model = *beside.model;
    violations = Contradictions(*request.model, job, file);
  } else {
    for (const std::string& missing : job.missing_of_model) {
      violations.push_back(
          {.field = "model",
           .description = fmt::format("{} does not state {}; state the model with --model", file,
                                      missing)});
    }
    if (job.model.has_value()) question.model = ToWire(*job.model);
    question.model.set_name(std::filesystem::path(file).stem().string());
  }
  if (!violations.empty()) return InvalidFields(violations);
  return question;
}

absl::StatusOr<LaunchQuestion> ReadLaunchFile(const LaunchFileFlags& flags,
                                              const StatedBeside& beside) {
  const auto text = ReadTextFile(flags.path);
  if (!text.ok()) {
    return InvalidFields({{.field = "from", .description = std::string(text.status().message())}});
  }
  return ReadLaunchText(flags, *text, beside);
}

}  // namespace meshwright
