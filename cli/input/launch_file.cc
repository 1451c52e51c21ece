#include "cli/input/launch_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "cli/input/read_file.h"
#include "search_space/base/status.h"
#include "search_space/spec/model.h"
#include "server/convert/convert.h"
#include "server/convert/message_reader.h"
#include "server/convert/read_wire.h"
#include "server/tuner/import/import.h"
#include "server/tuner/import/import_request.h"
#include "server/tuner/import/imported_job.h"
#include "server/tuner/import/setting_reader.h"

namespace meshwright {
namespace {

constexpr std::uintmax_t kMaxSourcedBytes = 16U << 20U;

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

// Returns the pools of a cluster that states their sizes.
std::vector<PoolOfCluster> PoolsOf(const v1::Cluster& cluster) {
  std::vector<PoolOfCluster> pools;
  for (const v1::NodePool& pool : cluster.pools()) {
    if (pool.node_count() < 1 || pool.devices_per_node() < 1) return {};
    pools.push_back({.name = pool.name(),
                     .chip = pool.chip(),
                     .node_count = pool.node_count(),
                     .devices_per_node = pool.devices_per_node()});
  }
  return pools;
}

// Returns the model beside the file if it is a whole one. It is read without its mistakes, which
// the resolver of the question finds.
std::optional<ModelSpec> ModelBeside(const StatedBeside& beside) {
  if (!beside.model.has_value() || !beside.model->has_layer_count()) return std::nullopt;
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

// Returns the fields in which the model beside the file contradicts that of the file.
std::vector<FieldViolation> Contradictions(const v1::Model& stated, const ModelSpec& read,
                                           const std::string& file) {
  std::vector<FieldViolation> found;
  const auto compare = [&](std::string_view field, bool is_stated, int own, int other) {
    if (!is_stated || own == other) return;
    found.push_back({.field = fmt::format("model.{}", field),
                     .description = fmt::format("{} in --model and {} in {}", own, other, file)});
  };
  compare("layer_count", stated.has_layer_count(), stated.layer_count(), read.layer_count);
  compare("hidden_size", stated.has_hidden_size(), stated.hidden_size(), read.hidden_size);
  compare("attention_head_count", stated.has_attention_head_count(), stated.attention_head_count(),
          read.attention_head_count);
  compare("kv_head_count", stated.has_kv_head_count(), stated.kv_head_count(), read.kv_head_count);
  compare("moe.expert_count", stated.has_moe(), stated.moe().expert_count(),
          read.moe.value_or(MoeSpec()).expert_count);
  return found;
}

// Puts the model together: what is stated beside the file wins over the file, field by field.
absl::StatusOr<v1::Model> ModelOf(const ImportedJob& job, const StatedBeside& beside,
                                  const std::string& path) {
  const std::string file = Name(path);
  std::vector<FieldViolation> violations;
  v1::Model model;
  if (job.model.has_value()) model = ToWire(*job.model);
  model.set_name(std::filesystem::path(path).stem().string());
  if (beside.model.has_value()) {
    if (job.model.has_value()) violations = Contradictions(*beside.model, *job.model, file);
    if (beside.model->has_layer_count()) model.Clear();
    model.MergeFrom(*beside.model);
  }
  const bool is_whole = beside.model.has_value() && beside.model->has_layer_count();
  for (const std::string& missing : job.missing_of_model) {
    const bool is_vocabulary = missing.starts_with("vocab_size");
    if (is_whole || (is_vocabulary && beside.model.has_value() && model.vocab_size() > 0)) continue;
    const std::string advice = is_vocabulary ? R"(a --model of {"vocab_size": ...} adds it)"
                                             : "state the model with --model";
    violations.push_back(
        {.field = "model",
         .description = fmt::format("{} does not state {}; {}", file, missing, advice)});
  }
  if (!violations.empty()) return InvalidFields(violations);
  return model;
}

std::vector<std::string> NotesOf(const ImportedJob& job, const std::string& file) {
  std::vector<std::string> notes;
  const std::string size =
      job.devices.has_value() ? fmt::format(" on {} devices", *job.devices) : "";
  notes.push_back(fmt::format("{}: read with its plan as a job of {}{}", file,
                              job.workload.framework_name.value_or(""), size));
  for (const std::string& note : job.notes) notes.push_back(fmt::format("{}: {}", file, note));
  if (!job.workload.global_batch_size.has_value() && !job.devices.has_value()) {
    notes.push_back(fmt::format(
        "{}: its global batch size depends on the number of devices, which nothing states; "
        "--devices-per-node does, beside --nodes",
        file));
  }
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const UnusedKey& key : job.unused) by_reason[key.reason].push_back(key.key);
  for (const auto& [reason, keys] : by_reason) {
    notes.push_back(
        reason.empty() ? fmt::format("{}: not known, and not used: {}", file, fmt::join(keys, ", "))
                       : fmt::format("{}: not used ({}): {}", file, reason, fmt::join(keys, ", ")));
  }
  return notes;
}

// Reads a file that a script sources. A device or a pipe need not end.
absl::StatusOr<std::string> ReadSourced(const std::string& path) {
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(path, error);
  if (!is_file || std::filesystem::file_size(path, error) > kMaxSourcedBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{}: must be a file of at most {} bytes", path, kMaxSourcedBytes));
  }
  return ReadTextFile(path);
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
                           .devices = DeviceCountOf(beside.cluster),
                           .pools = PoolsOf(beside.cluster)};
  request.open_file = [&folder](const std::string& path) {
    // As the script has it: from where it runs, or else beside it.
    auto own = ReadSourced(path == "-" ? "./-" : path);
    return own.ok() ? own : ReadSourced((folder / path).string());
  };
  if (beside.workload.has_global_batch_size()) {
    request.global_batch_size = beside.workload.global_batch_size();
  }
  ASSIGN_OR_RETURN(const ImportedJob job, ImportJob(request));
  LaunchQuestion question = {
      .workload = ToWire(job.workload), .plan = ToWire(job.plan), .notes = NotesOf(job, file)};
  question.workload.MergeFrom(beside.workload);
  auto model = ModelOf(job, beside, flags.path);
  if (model.ok()) {
    question.model = *std::move(model);
  } else {
    question.model_violations = FieldViolations(model.status());
  }
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
