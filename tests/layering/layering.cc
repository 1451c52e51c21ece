#include "tests/layering/layering.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace meshwright {
namespace {

using Names = std::span<const std::string_view>;

constexpr int kMaxLines = 500;

constexpr std::string_view kVocabulary[] = {"search_space"};
constexpr std::string_view kPrunerUses[] = {"search_space", "estimator"};
constexpr std::string_view kTunerUses[] = {"search_space", "vendor_models", "estimator", "recorder",
                                           "pruner"};
constexpr std::string_view kJobsUse[] = {"search_space", "server/tuner"};
constexpr std::string_view kPluginsUse[] = {"search_space", "server/tuner", "vendor_models/abi"};
constexpr std::string_view kTemplatesUse[] = {"vendor_models/abi"};
constexpr std::string_view kProtoUses[] = {"search_space", "vendor_models", "server/tuner"};
constexpr std::string_view kRpcUses[] = {"search_space", "vendor_models", "server/tuner", "proto"};
constexpr std::string_view kHttpUses[] = {"search_space", "server/tuner", "proto", "server/rpc"};
constexpr std::string_view kServerUses[] = {
    "search_space",     "vendor_models",  "estimator",  "recorder",    "pruner", "server/tuner",
    "server/launchers", "server/plugins", "server/rpc", "server/http", "proto"};
constexpr std::string_view kAll[] = {kAnyFolder};

// The arrows of docs/architecture.md. A folder may always use itself.
constexpr FolderRule kFolders[] = {
    {.path = "search_space", .is_pure = true},
    {.path = "vendor_models", .may_use = kVocabulary, .is_pure = true},
    {.path = "vendor_models/abi", .is_pure = true},
    {.path = "vendor_models/templates", .may_use = kTemplatesUse, .may_use_any_library = true},
    {.path = "estimator", .may_use = kVocabulary, .is_pure = true},
    {.path = "recorder", .may_use = kVocabulary, .is_pure = true},
    {.path = "pruner", .may_use = kPrunerUses, .is_pure = true},
    {.path = "server/tuner", .may_use = kTunerUses},
    {.path = "server/launchers", .may_use = kJobsUse},
    {.path = "server/plugins", .may_use = kPluginsUse},
    {.path = "proto", .may_use = kProtoUses},
    {.path = "server/rpc", .may_use = kRpcUses},
    {.path = "server/http", .may_use = kHttpUses},
    {.path = "server", .may_use = kServerUses, .has_subfolders = false},
    {.path = "cli", .may_use = kAll},
    {.path = "tests", .may_use = kAll, .may_use_any_library = true},
    {.path = "bench", .may_use = kAll, .may_use_any_library = true},
};

// Third-party headers, by how their path begins. The longest row that matches holds; what no row
// names (and is no header of the standard library) is refused.
struct LibraryRule {
  std::string_view prefix;
  Names folders;                 // where it may be used; kAnyFolder alone: everywhere
  bool sources_only = false;     // heavy, or an implementation detail: never in a header
  std::string_view reason = {};  // added to the message
};

constexpr std::string_view kJsonIn[] = {"search_space",   "vendor_models", "estimator",
                                        "recorder",       "server/tuner",  "server/launchers",
                                        "server/plugins", "proto"};
constexpr std::string_view kWireIn[] = {"proto", "server/rpc", "server/plugins", "server", "cli"};
constexpr std::string_view kSqlIn[] = {"recorder"};
constexpr std::string_view kChecksumsIn[] = {"recorder", "server/plugins"};
constexpr std::string_view kEigenIn[] = {"estimator"};
constexpr std::string_view kHashIn[] = {"estimator"};
constexpr std::string_view kAsioIn[] = {"server/launchers", "server/plugins", "server/http"};
constexpr std::string_view kHttpClientIn[] = {"server/launchers"};
constexpr std::string_view kCallFilterIn[] = {"server/plugins"};
constexpr std::string_view kLogIn[] = {"server/tuner", "server/launchers", "server/plugins",
                                       "server/rpc",   "server/http",      "server",
                                       "cli"};
constexpr std::string_view kFlagsIn[] = {"server", "cli"};
// POSIX: files that are locked and copied, sockets, the terminal, signals.
constexpr std::string_view kSystemIn[] = {"recorder",   "server/launchers", "server/plugins",
                                          "server/rpc", "server",           "cli"};

constexpr LibraryRule kLibraries[] = {
    {.prefix = "fmt/", .folders = kAll},
    {.prefix = "absl/status/", .folders = kAll},
    {.prefix = "absl/strings/cord.h", .folders = kAll, .sources_only = true},  // status payloads
    // Costs are looked up hundreds of thousands of times a search; std::unordered_map took a fifth.
    {.prefix = "absl/container/flat_hash_map.h", .folders = kHashIn},
    {.prefix = "absl/", .folders = {}, .reason = "only absl/status is used"},
    {.prefix = "nlohmann/json_fwd.hpp", .folders = kJsonIn},  // declarations only
    {.prefix = "nlohmann/", .folders = kJsonIn, .sources_only = true},
    {.prefix = "Eigen/", .folders = kEigenIn, .sources_only = true},
    {.prefix = "nlopt.h", .folders = kEigenIn, .sources_only = true},
    {.prefix = "sqlite3.h", .folders = kSqlIn, .sources_only = true},
    {.prefix = "openssl/", .folders = kChecksumsIn, .sources_only = true},
    {.prefix = "seccomp.h", .folders = kCallFilterIn, .sources_only = true},
    {.prefix = "curl/", .folders = kHttpClientIn, .sources_only = true},
    {.prefix = "spdlog/", .folders = kLogIn, .sources_only = true},
    {.prefix = "CLI/", .folders = kFlagsIn},
    {.prefix = "boost/", .folders = kAsioIn},
    {.prefix = "grpc", .folders = kWireIn},  // grpc/, grpcpp/, grpc++/
    {.prefix = "google/protobuf/", .folders = kWireIn},
    {.prefix = "google/rpc/", .folders = kWireIn},
    {.prefix = "meshwright/", .folders = kWireIn},  // generated from proto/meshwright
    {.prefix = "sys/", .folders = kSystemIn, .sources_only = true},
    {.prefix = "gtest/", .folders = {}, .reason = "only in tests/"},
    {.prefix = "gmock/", .folders = {}, .reason = "only in tests/"},
    {.prefix = "benchmark/", .folders = {}, .reason = "only in bench/"},
};

constexpr std::string_view kThreadHeaders[] = {
    "thread", "mutex",   "shared_mutex", "condition_variable",
    "future", "barrier", "latch",        "semaphore"};
constexpr std::string_view kClocks[] = {"system_clock", "steady_clock", "high_resolution_clock"};

bool Contains(Names names, std::string_view name) {
  return std::ranges::find(names, name) != names.end() ||
         std::ranges::find(names, kAnyFolder) != names.end();
}

// "estimator" holds "estimator/terms/tp.cc", but not "estimator_x/y.cc".
bool IsInside(std::string_view path, std::string_view folder) {
  return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

const FolderRule* FindFolder(std::string_view path) {
  const FolderRule* found = nullptr;
  for (const FolderRule& rule : kFolders) {
    if (!IsInside(path, rule.path)) {
      continue;
    }
    const bool is_deeper = path.find('/', rule.path.size() + 1) != std::string_view::npos;
    if (is_deeper && !rule.has_subfolders) {
      continue;
    }
    if (found == nullptr || rule.path.size() > found->path.size()) {
      found = &rule;
    }
  }
  return found;
}

const LibraryRule* FindLibrary(std::string_view header) {
  const LibraryRule* found = nullptr;
  for (const LibraryRule& rule : kLibraries) {
    if (!header.starts_with(rule.prefix)) {
      continue;
    }
    if (found == nullptr || rule.prefix.size() > found->prefix.size()) {
      found = &rule;
    }
  }
  return found;
}

std::string_view WithoutLeadingSpace(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t");
  return start == std::string_view::npos ? std::string_view() : text.substr(start);
}

struct Include {
  std::string_view header;
  bool is_quoted = false;
};

// `  # include <x>` and `#include "x"`; anything else is none.
std::optional<Include> ParseInclude(std::string_view line) {
  constexpr std::string_view kInclude = "include";
  line = WithoutLeadingSpace(line);
  if (!line.starts_with('#')) {
    return std::nullopt;
  }
  line = WithoutLeadingSpace(line.substr(1));
  if (!line.starts_with(kInclude)) {
    return std::nullopt;
  }
  line = WithoutLeadingSpace(line.substr(kInclude.size()));
  if (line.empty() || (line.front() != '"' && line.front() != '<')) {
    return std::nullopt;
  }
  const bool is_quoted = line.front() == '"';
  const size_t end = line.find(is_quoted ? '"' : '>', 1);
  if (end == std::string_view::npos) {
    return std::nullopt;
  }
  return Include{.header = line.substr(1, end - 1), .is_quoted = is_quoted};
}

std::optional<std::string> CheckLibrary(const LibraryRule& rule, const FolderRule& folder,
                                        bool is_header, std::string_view header) {
  if (!Contains(rule.folders, folder.path)) {
    return fmt::format("{}/ may not include {}{}{}", folder.path, header,
                       rule.reason.empty() ? "" : ": ", rule.reason);
  }
  if (rule.sources_only && is_header) {
    return fmt::format("{} belongs into .cc files, not into a header", header);
  }
  return std::nullopt;
}

std::optional<std::string> CheckInclude(const Include& include, const FolderRule& folder,
                                        bool is_header) {
  const std::string_view header = include.header;
  if (const FolderRule* used = FindFolder(header); used != nullptr) {
    if (used->path == folder.path || Contains(folder.may_use, used->path)) {
      return std::nullopt;
    }
    return fmt::format("{}/ may not use {}/ ({})", folder.path, used->path, header);
  }
  if (folder.may_use_any_library) {
    return std::nullopt;
  }
  if (const LibraryRule* library = FindLibrary(header); library != nullptr) {
    return CheckLibrary(*library, folder, is_header, header);
  }
  if (include.is_quoted) {
    return fmt::format("\"{}\" starts at no folder of the project", header);
  }
  if (header.find('/') != std::string_view::npos) {
    return fmt::format("<{}> is of a library that the table does not know", header);
  }
  if (folder.is_pure && std::ranges::find(kThreadHeaders, header) != std::end(kThreadHeaders)) {
    return fmt::format("{}/ starts no threads: no <{}>", folder.path, header);
  }
  return std::nullopt;
}

// Comments may speak of clocks. No string of ours holds "//" before the name of one.
std::optional<std::string> CheckClock(std::string_view line, const FolderRule& folder) {
  const std::string_view code = line.substr(0, line.find("//"));
  for (const std::string_view clock : kClocks) {
    if (code.find(clock) == std::string_view::npos) {
      continue;
    }
    return fmt::format("{}/ reads no clock: no {}", folder.path, clock);
  }
  return std::nullopt;
}

std::vector<std::string_view> SplitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

std::span<const FolderRule> FolderRules() { return kFolders; }

std::vector<Violation> CheckSource(std::string_view path, std::string_view text) {
  std::vector<Violation> violations;
  const auto report = [&](size_t line, std::string message) {
    violations.push_back(
        {.file = std::string(path), .line = static_cast<int>(line), .message = std::move(message)});
  };
  const FolderRule* const folder = FindFolder(path);
  if (folder == nullptr) {
    report(1, "lies in no folder of the table");
    return violations;
  }
  const bool is_header = path.ends_with(".h");
  const std::vector<std::string_view> lines = SplitLines(text);
  if (lines.size() > kMaxLines) {
    report(1, fmt::format("{} lines; at most {}: split it by concept", lines.size(), kMaxLines));
  }
  if (is_header && std::ranges::find(lines, "#pragma once") == lines.end()) {
    report(1, "header without #pragma once");
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    std::optional<std::string> wrong;
    if (const std::optional<Include> include = ParseInclude(lines[i])) {
      wrong = CheckInclude(*include, *folder, is_header);
    } else if (folder->is_pure) {
      wrong = CheckClock(lines[i], *folder);
    }
    if (wrong) {
      report(i + 1, *std::move(wrong));
    }
  }
  return violations;
}

}  // namespace meshwright
