#include "server/launchers/kubernetes/kubernetes_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "search_space/base/status.h"
#include "server/launchers/kubernetes/kubernetes_pod.h"
#include "server/tuner/question/kubernetes_options.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

constexpr char kVolume[] = "meshwright";
constexpr char kQueueLabel[] = "kueue.x-k8s.io/queue-name";
constexpr char kManagerLabel[] = "app.kubernetes.io/managed-by";
// Operators add suffixes to a job's name ("-worker-0", "-node-0-0"), and the result must fit a DNS
// label too.
constexpr std::size_t kLongestAttemptId = 52;

// Escapes a text: Kubernetes replaces $(NAME) in commands and environments and reads $$ as $.
std::string Literal(const std::string& text) {
  std::string literal;
  for (const char c : text) literal += c == '$' ? std::string("$$") : std::string(1, c);
  return literal;
}

Json LabelsOf(const KubernetesOptions& options, const JobSpec& spec) {
  Json labels = options.labels;
  labels[std::string(kAttemptLabel)] = spec.attempt_id;
  labels[kManagerLabel] = "meshwright";
  return labels;
}

// Returns an affinity that avoids the nodes. It goes by the names of the nodes, because their
// labels may differ, and each field takes a single value.
Json AffinityOf(const std::vector<std::string>& nodes) {
  Json fields = Json::array();
  for (const std::string& node : nodes) {
    fields.push_back(
        {{"key", "metadata.name"}, {"operator", "NotIn"}, {"values", Json::array({node})}});
  }
  const Json term = {{"matchFields", fields}};
  return {{"nodeAffinity",
           {{"requiredDuringSchedulingIgnoredDuringExecution",
             {{"nodeSelectorTerms", Json::array({term})}}}}}};
}

std::string MasterOf(const KubernetesTemplate& job_template, const KubernetesOptions& options,
                     const JobSpec& spec) {
  if (spec.node_count == 1) return "127.0.0.1";
  std::string address = job_template.master_address;
  for (const auto& [word, value] :
       {std::pair<std::string_view, std::string_view>("${attempt_id}", spec.attempt_id),
        std::pair<std::string_view, std::string_view>("${name_space}", options.name_space)}) {
    for (std::size_t at = address.find(word); at != std::string::npos;
         at = address.find(word, at + value.size())) {
      address.replace(at, word.size(), value);
    }
  }
  return address;
}

Json CommandOf(const KubernetesTemplate& job_template, const KubernetesOptions& options,
               const JobSpec& spec) {
  std::vector<std::string> words = {
      "bash",
      "-c",
      std::string(kubernetes_pod().front().text),
      "bash",
      fmt::format("{}/{}.log", spec.folder, spec.attempt_id),
      job_template.rank_variable,
      MasterOf(job_template, options, spec),
      std::to_string(spec.node_count),
      std::to_string(spec.processes_per_node),
      fmt::format("{}", std::ceil(spec.time_limit.count() * 10) / 10)};
  words.insert(words.end(), spec.command.begin(), spec.command.end());
  for (std::string& word : words) word = Literal(word);
  return words;
}

// Returns the values by placeholder, without those that have none.
Json ValuesOf(const KubernetesTemplate& job_template, const KubernetesOptions& options,
              const JobSpec& spec) {
  Json values = {
      {"attempt_id", spec.attempt_id},
      {"command", CommandOf(job_template, options, spec)},
      {"deadline_seconds",
       static_cast<std::int64_t>(std::ceil(spec.time_limit.count() + options.start_limit.count()))},
      {"environment", Json::array()},
      {"environment_words", Json::array()},
      {"image", options.image},
      {"labels", LabelsOf(options, spec)},
      {"name_space", options.name_space},
      {"nodes", spec.node_count},
      {"other_nodes", spec.node_count - 1},
      {"processes_per_node", spec.processes_per_node},
      {"suspend", UsesKueue(job_template, options)},
      {"volume_mounts", Json::array()},
      {"volumes", Json::array()}};
  std::map<std::string, std::string> environment = spec.environment;
  environment[kAttemptVariable] = spec.attempt_id;
  for (const auto& [name, value] : environment) {
    values["environment"].push_back({{"name", name}, {"value", Literal(value)}});
    values["environment_words"].push_back(Literal(fmt::format("{}={}", name, value)));
  }
  if (!options.queue.empty()) values["queue"] = options.queue;
  if (!options.device_resource.empty()) {
    const int devices = options.devices_per_node.value_or(spec.processes_per_node);
    values["resources"] = {{"limits", {{options.device_resource, std::to_string(devices)}}}};
  }
  if (!spec.excluded_nodes.empty()) values["affinity"] = AffinityOf(spec.excluded_nodes);
  if (!options.volume_claim.empty()) {
    values["volumes"].push_back(
        {{"name", kVolume}, {"persistentVolumeClaim", {{"claimName", options.volume_claim}}}});
    values["volume_mounts"].push_back({{"name", kVolume}, {"mountPath", options.mount_path}});
  }
  return values;
}

// Fills in a text. A text that is a single placeholder takes its value with its type; within other
// text the value is written out.
std::optional<Json> FilledText(const std::string& text, const Json& values) {
  if (text.starts_with("${") && text.find('}') == text.size() - 1) {
    const auto found = values.find(text.substr(2, text.size() - 3));
    return found == values.end() ? std::nullopt : std::optional<Json>(*found);
  }
  std::string filled;
  std::size_t at = 0;
  for (std::size_t open = text.find("${"); open != std::string::npos; open = text.find("${", at)) {
    const std::size_t close = text.find('}', open);
    if (close == std::string::npos) break;  // stays as it is
    const auto found = values.find(text.substr(open + 2, close - open - 2));
    filled += text.substr(at, open - at);
    if (found != values.end()) {
      filled += found->is_string() ? found->get<std::string>() : found->dump();
    }
    at = close + 1;
  }
  return filled + text.substr(at);
}

std::optional<Json> Filled(const Json& value, const Json& values) {
  if (value.is_string()) return FilledText(value.get<std::string>(), values);
  if (value.is_object()) {
    Json object = Json::object();
    for (const auto& [name, member] : value.items()) {
      if (auto filled = Filled(member, values); filled.has_value()) {
        object[name] = *std::move(filled);
      }
    }
    return object;
  }
  if (!value.is_array()) return value;
  Json list = Json::array();
  for (const Json& element : value) {
    auto filled = Filled(element, values);
    if (filled.has_value() && element.is_string() && filled->is_array()) {
      list.insert(list.end(), filled->begin(), filled->end());
    } else if (filled.has_value()) {
      list.push_back(*std::move(filled));
    }
  }
  return list;
}

// Writes JSON, which holds only UTF-8, while a word of a command may hold any bytes.
absl::StatusOr<std::string> TextOf(const Json& json) {
  try {
    return json.dump();
  } catch (const Json::exception& error) {
    return absl::FailedPreconditionError(
        fmt::format("the command or environment is not valid UTF-8: {}", error.what()));
  }
}

}  // namespace

bool UsesKueue(const KubernetesTemplate& job_template, const KubernetesOptions& options) {
  return job_template.gang == GangScheduler::kKueue && !options.queue.empty();
}

std::vector<FieldViolation> MistakesOf(const KubernetesTemplate& job_template,
                                       const KubernetesOptions& options, const JobSpec& spec) {
  std::vector<FieldViolation> found;
  const bool begins_with_letter =
      !spec.attempt_id.empty() && spec.attempt_id.front() >= 'a' && spec.attempt_id.front() <= 'z';
  if (!begins_with_letter || !IsKubernetesName(spec.attempt_id, kLongestAttemptId)) {
    found.push_back(
        {"attempt_id", fmt::format("'{}'; must be at most {} of a-z, 0-9 and '-', and begin with a "
                                   "letter, because it becomes the name of the job",
                                   spec.attempt_id, kLongestAttemptId)});
  }
  const bool is_in_volume =
      spec.folder == options.mount_path || spec.folder.starts_with(options.mount_path + "/");
  if (!options.mount_path.empty() && !is_in_volume) {
    found.push_back(
        {"folder", fmt::format("'{}'; must be in '{}', where the pods have the shared volume",
                               spec.folder, options.mount_path)});
  }
  const bool has_gang = job_template.gang == GangScheduler::kOwn || !options.queue.empty();
  if (spec.node_count > 1 && !has_gang) {
    found.push_back(
        {"node_count", fmt::format("{}; must be 1 if nothing places all pods of a job at once: "
                                   "name a queue of Kueue, or a template whose scheduler does so "
                                   "(volcano)",
                                   spec.node_count)});
  }
  return found;
}

absl::Status CheckJob(const KubernetesTemplate& job_template, const KubernetesOptions& options,
                      const JobSpec& spec) {
  std::string message;
  for (const FieldViolation& found : MistakesOf(job_template, options, spec)) {
    message +=
        fmt::format("{}{} = {}", message.empty() ? "" : "; ", found.field, found.description);
  }
  return message.empty() ? absl::OkStatus() : absl::FailedPreconditionError(message);
}

absl::StatusOr<std::string> FillObject(const std::string& object,
                                       const KubernetesTemplate& job_template,
                                       const KubernetesOptions& options, const JobSpec& spec) {
  const Json json = Json::parse(object, nullptr, /*allow_exceptions=*/false);
  return TextOf(*Filled(json, ValuesOf(job_template, options, spec)));
}

absl::StatusOr<std::string> JobObject(const KubernetesTemplate& job_template,
                                      const KubernetesOptions& options, const JobSpec& spec) {
  const Json json = Json::parse(job_template.job.object, nullptr, /*allow_exceptions=*/false);
  Json object = *Filled(json, ValuesOf(job_template, options, spec));
  Json& labels = object["metadata"]["labels"];
  if (!labels.is_object()) labels = Json::object();
  labels.update(LabelsOf(options, spec));
  if (UsesKueue(job_template, options)) labels[kQueueLabel] = options.queue;
  return TextOf(object);
}

}  // namespace meshwright
