#include "tests/layering/folders.h"

#include <algorithm>
#include <cstddef>

namespace meshwright {
namespace {

// The arrows of docs/architecture.md. A folder may always use itself.
constexpr FolderRule kFolders[] = {
    // The vocabulary, and all the ways to split a model.
    {.path = "search_space/base", .is_pure = true},
    {.path = "search_space/digest", .is_pure = true},
    {.path = "search_space/spec",
     .may_use = "search_space/base search_space/digest",
     .is_pure = true},
    {.path = "search_space/space",
     .may_use = "search_space/base search_space/spec",
     .is_pure = true},
    {.path = "search_space/import",
     .may_use = "search_space/base search_space/spec",
     .is_pure = true},

    // Facts about chips, the cost model, the history.
    {.path = "vendor_models", .may_use = "search_space/", .is_pure = true},
    {.path = "vendor_models/abi", .is_pure = true},
    {.path = "recorder/sql", .may_use = "search_space/base", .is_pure = true},
    {.path = "recorder/store", .may_use = "search_space/base recorder/sql", .is_pure = true},
    {.path = "recorder", .may_use = "search_space/ recorder/sql recorder/store", .is_pure = true},
    {.path = "estimator/problem",
     .may_use = "search_space/space search_space/spec",
     .is_pure = true},
    {.path = "estimator/terms", .may_use = "search_space/", .is_pure = true},
    {.path = "estimator/layer", .may_use = "search_space/ estimator/terms", .is_pure = true},
    {.path = "estimator/legality",
     .may_use = "search_space/ estimator/problem estimator/layer",
     .is_pure = true},
    {.path = "estimator/pipeline", .may_use = "search_space/", .is_pure = true},
    {.path = "estimator/learning", .may_use = "search_space/ estimator/problem", .is_pure = true},
    {.path = "estimator/model",
     .may_use = "search_space/ estimator/problem estimator/terms estimator/layer "
                "estimator/pipeline estimator/learning",
     .is_pure = true},
    {.path = "estimator/frameworks", .may_use = "search_space/ estimator/layer", .is_pure = true},
    {.path = "estimator/fit", .may_use = "search_space/ estimator/terms", .is_pure = true},

    // Rules for plans that need not be tried.
    {.path = "pruner/rules", .may_use = "search_space/ estimator/", .is_pure = true},
    {.path = "pruner", .may_use = "search_space/ pruner/rules", .is_pure = true},

    // One study from question to answer.
    {.path = "server/tuner/question", .may_use = "search_space/ vendor_models estimator/"},
    {.path = "server/tuner/export/text",
     .may_use = "search_space/base search_space/spec server/tuner/question"},
    {.path = "server/tuner/export",
     .may_use = "search_space/ estimator/ server/tuner/question server/tuner/export/text"},
    {.path = "server/tuner/import/text", .may_use = "search_space/base server/tuner/question"},
    {.path = "server/tuner/import",
     .may_use = "search_space/ server/tuner/question server/tuner/export server/tuner/import/text"},
    {.path = "server/tuner/learning",
     .may_use = "search_space/ estimator/ pruner/rules server/tuner/question"},
    {.path = "server/tuner/search",
     .may_use = "search_space/ estimator/ pruner/ server/tuner/question server/tuner/learning"},
    {.path = "server/tuner/search/mixed",
     .may_use = "search_space/ estimator/ pruner/rules server/tuner/question server/tuner/search"},
    {.path = "server/tuner/choice",
     .may_use = "search_space/ estimator/learning server/tuner/question"},
    {.path = "server/tuner/chip_calibration", .may_use = "search_space/ vendor_models estimator/"},
    {.path = "server/tuner/trials",
     .may_use = "search_space/ estimator/ pruner/rules server/tuner/question server/tuner/export "
                "server/tuner/learning server/tuner/search"},
    {.path = "server/tuner/answers",
     .may_use = "search_space/ estimator/ pruner/ server/tuner/question server/tuner/export "
                "server/tuner/learning server/tuner/choice server/tuner/search "
                "server/tuner/search/mixed"},

    // The parts that run studies.
    {.path = "server/process", .may_use = "search_space/base"},
    {.path = "server/tuner/placement", .may_use = "search_space/base server/process"},
    {.path = "server/engine/queue", .may_use = "search_space/base recorder server/tuner/question"},
    {.path = "server/engine",
     .may_use = "search_space/ recorder estimator/ server/tuner/ server/process "
                "server/engine/queue"},
    {.path = "server/launchers/jobs", .may_use = "search_space/ server/tuner/"},
    {.path = "server/launchers/local",
     .may_use = "search_space/base search_space/spec server/tuner/question server/process "
                "server/launchers/jobs"},
    {.path = "server/launchers/slurm",
     .may_use = "search_space/base server/process server/launchers/jobs"},
    {.path = "server/launchers/kubernetes",
     .may_use = "search_space/ server/tuner/question server/launchers/jobs"},
    {.path = "server/launchers",
     .may_use = "search_space/ server/tuner/ server/launchers/jobs server/launchers/local "
                "server/launchers/slurm server/launchers/kubernetes"},

    // The wire.
    {.path = "proto/json", .may_use = "search_space/base"},
    {.path = "server/plugins/protocol", .may_use = "search_space/base vendor_models/abi"},
    {.path = "server/plugins/host",
     .may_use = "search_space/base vendor_models/abi server/process server/plugins/protocol"},
    {.path = "server/plugins/wire",
     .may_use = "search_space/ server/tuner/question server/plugins/protocol"},
    {.path = "server/plugins",
     .may_use = "search_space/ server/tuner/ server/process server/plugins/protocol "
                "server/plugins/wire"},
    {.path = "server/plugins/conformance",
     .may_use = "search_space/ server/tuner/question server/plugins/protocol server/plugins/wire "
                "server/plugins"},
    {.path = "server/convert",
     .may_use = "search_space/ vendor_models recorder estimator/fit estimator/learning "
                "server/tuner/ server/engine/queue server/engine "
                "proto/json"},
    {.path = "server/changes",
     .may_use = "search_space/base search_space/digest recorder server/tuner/question "
                "server/engine server/convert"},
    {.path = "server/placement",
     .may_use = "search_space/base search_space/spec server/tuner/ server/process server/convert"},
    {.path = "server/auth", .may_use = "search_space/base search_space/digest"},
    {.path = "server/rpc/calls",
     .may_use = "search_space/base server/engine server/convert server/auth proto/json"},
    {.path = "server/rpc/client", .may_use = "search_space/base server/convert server/rpc/calls"},
    {.path = "server/rpc/services",
     .may_use = "search_space/ recorder proto/json server/tuner/ server/engine/queue server/engine "
                "server/convert server/changes server/placement server/auth server/rpc/calls"},
    {.path = "server/rpc",
     .may_use = "search_space/base server/tuner/question server/process server/engine/queue "
                "server/engine server/auth server/rpc/calls server/rpc/services"},
    {.path = "server/http",
     .may_use = "search_space/base search_space/digest recorder server/tuner/question "
                "server/engine proto/json server/convert server/placement server/auth "
                "server/rpc/calls"},
    {.path = "server/metrics",
     .may_use = "search_space/base search_space/spec recorder server/process server/engine "
                "server/auth server/rpc/calls server/rpc"},
    {.path = "server/version"},
    {.path = "server",
     .may_use = "search_space/base vendor_models recorder server/tuner/question server/process "
                "server/engine/queue server/engine server/launchers server/plugins proto/json "
                "server/convert "
                "server/changes server/auth "
                "server/rpc/calls server/rpc/services server/rpc server/http server/metrics "
                "server/version"},

    // The programs.
    {.path = "cli/program",
     .may_use = "search_space/base proto/json server/process server/convert"},
    {.path = "cli/detect",
     .may_use = "search_space/base search_space/spec server/process server/launchers/slurm"},
    {.path = "cli/input",
     .may_use =
         "search_space/ recorder/store server/tuner/ proto/json server/process server/convert "
         "cli/program cli/detect"},
    {.path = "cli/plots"},
    {.path = "cli/reports",
     .may_use = "server/process search_space/ server/tuner/question server/engine proto/json "
                "server/plugins/ "
                "server/convert server/rpc/client cli/program cli/plots"},
    {.path = "cli/local",
     .may_use = "search_space/ recorder server/tuner/question server/process server/engine "
                "server/launchers server/plugins server/convert cli/program cli/reports"},
    {.path = "cli/place",
     .may_use = "search_space/base proto/json server/placement cli/program cli/detect cli/input "
                "cli/reports"},
    {.path = "cli/source",
     .may_use = "search_space/base server/rpc/client cli/program cli/input cli/local"},
    {.path = "cli/help", .may_use = "proto/json cli/program cli/reports"},
    {.path = "cli/commands",
     .may_use =
         "search_space/ vendor_models recorder recorder/store estimator/model estimator/learning "
         "server/tuner/ proto/json "
         "server/process server/engine server/http server/plugins server/plugins/wire "
         "server/plugins/conformance server/convert server/changes server/placement "
         "server/rpc/client "
         "cli/program cli/input "
         "cli/reports cli/local cli/help cli/place cli/source"},
    {.path = "cli",
     .may_use = "search_space/base server/process server/version cli/program cli/help "
                "cli/commands"},

    // Folders that are not part of the product.
    {.path = "vendor_models/templates",
     .may_use = "vendor_models/abi",
     .may_use_any_library = true,
     .has_subfolders = true},
    {.path = "tests", .may_use = "*", .may_use_any_library = true, .has_subfolders = true},
    {.path = "bench", .may_use = "*", .may_use_any_library = true, .has_subfolders = true},
};

constexpr std::string_view kJson =
    "search_space/base search_space/import vendor_models estimator/frameworks recorder "
    "server/tuner/ "
    "server/launchers/ server/plugins/ proto/json cli/detect cli/input cli/place";
constexpr std::string_view kWire =
    "proto/json server/convert server/changes server/placement server/rpc/ server/http "
    "server/plugins/ server "
    "cli/";
// POSIX is for files that are locked and copied, processes, sockets, the terminal and signals.
constexpr std::string_view kSystem =
    "recorder/ server/process server/launchers/ server/plugins/ server/auth server/rpc/ server "
    "cli/";

constexpr LibraryRule kLibraries[] = {
    {.prefix = "fmt/", .folders = "*"},
    {.prefix = "absl/status/", .folders = "*", .is_quoted = true},
    // Needed for the payloads of statuses.
    {.prefix = "absl/strings/cord.h", .folders = "*", .sources_only = true, .is_quoted = true},
    // A search looks up costs hundreds of thousands of times; std::unordered_map took a fifth of
    // its time.
    {.prefix = "absl/container/flat_hash_map.h",
     .folders = "estimator/ server/tuner/search/mixed",
     .is_quoted = true},
    // The stages of a plan are made a million times a second.
    {.prefix = "absl/container/inlined_vector.h",
     .folders = "estimator/layer estimator/model estimator/pipeline server/tuner/search/mixed",
     .is_quoted = true},
    // Times of RFC 3339 are read by it.
    {.prefix = "absl/strings/string_view.h",
     .folders = "server/convert",
     .sources_only = true,
     .is_quoted = true},
    {.prefix = "absl/time/", .folders = "server/convert", .sources_only = true, .is_quoted = true},
    {.prefix = "absl/", .folders = "", .reason = "only absl/status is used", .is_quoted = true},
    {.prefix = "nlohmann/json_fwd.hpp", .folders = kJson},  // declarations only
    {.prefix = "nlohmann/", .folders = kJson, .sources_only = true},
    {.prefix = "Eigen/", .folders = "estimator/", .sources_only = true},
    {.prefix = "nlopt.h", .folders = "estimator/fit", .sources_only = true},
    {.prefix = "re2/", .folders = "cli/input", .sources_only = true},
    {.prefix = "yaml.h", .folders = "server/tuner/import/text", .sources_only = true},
    {.prefix = "sqlite3.h", .folders = "recorder/sql", .sources_only = true},
    {.prefix = "libpq-fe.h", .folders = "recorder/sql", .sources_only = true},
    {.prefix = "openssl/", .folders = "search_space/digest", .sources_only = true},
    {.prefix = "seccomp.h", .folders = "server/plugins/host", .sources_only = true},
    {.prefix = "curl/", .folders = "server/launchers/kubernetes", .sources_only = true},
    {.prefix = "spdlog/",
     .folders = "server/tuner/ server/engine server/launchers/ server/plugins/ server/rpc/ "
                "server/http server cli/",
     .sources_only = true},
    {.prefix = "CLI/", .folders = "server cli/"},
    {.prefix = "boost/", .folders = "server/process server/http", .sources_only = true},
    {.prefix = "prometheus/", .folders = "server/metrics", .sources_only = true},
    {.prefix = "grpc", .folders = kWire},  // grpc/, grpcpp/, grpc++/
    {.prefix = "google/protobuf/", .folders = kWire},
    // Headers that are generated from proto/.
    {.prefix = "google/rpc/", .folders = kWire, .is_quoted = true},
    {.prefix = "meshwright/", .folders = kWire, .is_quoted = true},
    {.prefix = "sys/", .folders = kSystem, .sources_only = true},
    {.prefix = "arpa/", .folders = "server/rpc", .sources_only = true},
    {.prefix = "netinet/", .folders = "server/rpc", .sources_only = true},
    {.prefix = "gtest/", .folders = "", .reason = "only in tests/"},
    {.prefix = "gmock/", .folders = "", .reason = "only in tests/"},
    {.prefix = "benchmark/", .folders = "", .reason = "only in bench/"},
};

// The calls that resolve what a user or a store has stated.
constexpr CallRule kCalls[] = {
    {"ResolveProblem(", "server/tuner/question server/engine server/plugins/conformance",
     "a request is resolved at the edge (server/convert), and rows of the store where they are "
     "read"},
    // An answer may also ask other questions: another precision, another number of nodes, or
    // another fact of the framework.
    {"ResolveStudy(", "server/tuner/question server/tuner/answers server/convert",
     "a request is resolved at the edge (server/convert)"},
    {"ResolveCase(", "server/tuner/question server/tuner/answers server/convert",
     "a case is resolved at the edge (server/convert)"},
    // Runs are resolved again under the facts of the question that they teach. Jobs are also made
    // of plans that nobody stated.
    {"ResolvePlan(",
     "server/tuner/question server/tuner/learning server/engine server/launchers "
     "server/convert",
     "a plan is resolved at the edge (server/convert)"},
};

// Returns true for "estimator/terms/tp.cc" inside "estimator", but not for "estimator_x/y.cc".
bool IsInside(std::string_view path, std::string_view folder) {
  return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

bool NameHolds(std::string_view name, std::string_view folder) {
  if (name == "*" || name == folder) return true;
  if (!name.ends_with('/')) return false;
  name.remove_suffix(1);
  return name == folder || IsInside(folder, name);
}

}  // namespace

std::span<const FolderRule> FolderRules() { return kFolders; }

std::span<const LibraryRule> LibraryRules() { return kLibraries; }

std::span<const CallRule> CallRules() { return kCalls; }

const FolderRule* FindFolder(std::string_view path) {
  const FolderRule* found = nullptr;
  for (const FolderRule& rule : kFolders) {
    if (!IsInside(path, rule.path)) continue;
    const bool is_deeper = path.find('/', rule.path.size() + 1) != std::string_view::npos;
    if (is_deeper && !rule.has_subfolders) continue;
    if (found == nullptr || rule.path.size() > found->path.size()) found = &rule;
  }
  return found;
}

const LibraryRule* FindLibrary(std::string_view header) {
  const LibraryRule* found = nullptr;
  for (const LibraryRule& rule : kLibraries) {
    if (!header.starts_with(rule.prefix)) continue;
    if (found == nullptr || rule.prefix.size() > found->prefix.size()) found = &rule;
  }
  return found;
}

bool Names(std::string_view list, std::string_view folder) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(' '), list.size());
    if (NameHolds(list.substr(0, end), folder)) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

}  // namespace meshwright
