#include "server/launchers/kubernetes/kubernetes_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <string_view>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "server/launchers/kubernetes/kubernetes_template.h"

namespace meshwright {
namespace {

constexpr Seconds kLongestLimit(30 * 86400.0);
// of a DNS label (RFC 1123) and of the value of a Kubernetes label
constexpr std::size_t kLongestName = 63;
constexpr std::string_view kReserved[] = {"meshwright.io/", "kueue.x-k8s.io/", "kubernetes.io/",
                                          "app.kubernetes.io/managed-by"};

using Violations = std::vector<FieldViolation>;

bool IsReadable(const std::string& path) { return std::ifstream(path).good(); }

bool IsLetterOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Checks the value of a label, or its key without the prefix.
bool IsLabelText(std::string_view text) {
  return !text.empty() && text.size() <= kLongestName && IsLetterOrDigit(text.front()) &&
         IsLetterOrDigit(text.back()) && std::ranges::all_of(text, [](char c) {
           return IsLetterOrDigit(c) || c == '-' || c == '_' || c == '.';
         });
}

void CheckServer(const KubernetesOptions& options, Violations& violations) {
  const std::string_view server = options.server;
  const bool is_plain = server.starts_with("http://");
  if (!is_plain && !server.starts_with("https://")) {
    violations.push_back(
        {"server", fmt::format("'{}'; must begin with https:// or http://", server)});
  }
  const bool is_here =
      server.starts_with("http://127.0.0.1:") || server.starts_with("http://localhost:");
  if (is_plain && !is_here && !options.token_file.empty()) {
    violations.push_back({"server", fmt::format("'{}'; must be https if a token is sent", server)});
  }
  if (server.ends_with('/')) {
    violations.push_back({"server", fmt::format("'{}'; must not end with '/'", server)});
  }
  for (const auto& [field, path] :
       {std::pair("token_file", options.token_file), std::pair("ca_file", options.ca_file)}) {
    if (!path.empty() && !IsReadable(path)) {
      violations.push_back({field, fmt::format("'{}'; cannot be read", path)});
    }
  }
}

void CheckPod(const KubernetesOptions& options, Violations& violations) {
  if (options.image.empty()) violations.push_back({"image", "''; must not be empty"});
  if (const int devices = options.devices_per_node.value_or(1); devices < 1) {
    violations.push_back({"devices_per_node", fmt::format("{}; must be >= 1", devices)});
  }
  if (options.devices_per_node.has_value() && options.device_resource.empty()) {
    violations.push_back({"device_resource", "''; must be set with devices_per_node"});
  }
  if (options.volume_claim.empty() != options.mount_path.empty()) {
    violations.push_back({"volume_claim", fmt::format("'{}'; must be set with mount_path = '{}', "
                                                      "or neither",
                                                      options.volume_claim, options.mount_path)});
  }
  if (!options.mount_path.empty() && !options.mount_path.starts_with('/')) {
    violations.push_back({"mount_path", fmt::format("'{}'; must be absolute", options.mount_path)});
  }
}

void CheckLabels(const KubernetesOptions& options, Violations& violations) {
  for (const auto& [key, value] : options.labels) {
    const std::string field = fmt::format("labels['{}']", key);
    const std::string_view text = key;
    const std::size_t slash = text.find('/');
    if (!IsLabelText(slash == std::string_view::npos ? text : text.substr(slash + 1))) {
      violations.push_back({field, "the key is not a valid label key"});
    }
    if (std::ranges::any_of(kReserved, [&](std::string_view r) { return text.starts_with(r); })) {
      violations.push_back({field, "the key is reserved: Kubernetes or Meshwright sets it"});
    }
    if (!value.empty() && !IsLabelText(value)) {
      violations.push_back(
          {field, fmt::format("'{}'; must be at most {} letters, digits, '-', '_' or '.'", value,
                              kLongestName)});
    }
  }
}

void CheckLimits(const KubernetesOptions& options, Violations& violations) {
  for (const auto& [field, limit] : {std::pair("request_limit_seconds", options.request_limit),
                                     std::pair("start_limit_seconds", options.start_limit),
                                     std::pair("deletion_limit_seconds", options.deletion_limit)}) {
    if (!(limit > Seconds(0) && limit <= kLongestLimit)) {
      violations.push_back({field, fmt::format("{} s; must be > 0 and <= {}", limit.count(),
                                               kLongestLimit.count())});
    }
  }
  if (!(options.hopeless_limit >= Seconds(0) && options.hopeless_limit <= kLongestLimit)) {
    violations.push_back({"hopeless_limit_seconds",
                          fmt::format("{} s; must be >= 0 and <= {}",
                                      options.hopeless_limit.count(), kLongestLimit.count())});
  }
}

}  // namespace

bool IsKubernetesName(const std::string& text, std::size_t longest) {
  return !text.empty() && text.size() <= longest && text.front() != '-' && text.back() != '-' &&
         std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

std::vector<FieldViolation> MistakesOf(const KubernetesOptions& options) {
  Violations violations;
  CheckServer(options, violations);
  if (!IsKubernetesName(options.name_space, kLongestName)) {
    violations.push_back({"namespace", fmt::format("'{}'; must be at most {} of a-z, 0-9 and '-'",
                                                   options.name_space, kLongestName)});
  }
  if (!options.job_template.starts_with('/') &&
      !FindKubernetesTemplate(options.job_template).has_value()) {
    violations.push_back(
        {"job_template", fmt::format("'{}'; must be one of {}, or the absolute "
                                     "path of a file",
                                     options.job_template, KubernetesTemplateNames())});
  }
  if (!options.queue.empty() && !IsKubernetesName(options.queue, kLongestName)) {
    violations.push_back({"queue", fmt::format("'{}'; must be at most {} of a-z, 0-9 and '-'",
                                               options.queue, kLongestName)});
  }
  CheckPod(options, violations);
  CheckLabels(options, violations);
  CheckLimits(options, violations);
  return violations;
}

absl::Status Validate(const KubernetesOptions& options) {
  const Violations violations = MistakesOf(options);
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

}  // namespace meshwright
