#include "server/plugins/manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "search_space/base/clean_text.h"
#include "search_space/base/file_text.h"
#include "search_space/base/json_text.h"
#include "search_space/base/status.h"
#include "server/plugins/wire/checksum.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;
using std::filesystem::path;

// The largest values are far above what a model needs, and far below what would overflow in a sum.
constexpr std::int64_t kLeastMemoryBytes = std::int64_t{64} << 20;  // none starts with less
constexpr std::int64_t kMaxMemoryBytes = std::int64_t{16} << 40;
constexpr std::int64_t kMaxCpuSeconds = 31'536'000;  // 365 days
constexpr std::int64_t kMaxFileBytes = std::int64_t{1} << 40;
constexpr std::int64_t kMaxOpenFiles = 1 << 20;
constexpr std::int64_t kMaxProcesses = 4096;
constexpr std::int64_t kMaxDeadlineMilliseconds = 3'600'000;

bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= 63 && text.front() != '-' &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string_view::npos;
}

std::string Shown(const Json& value) {
  constexpr std::size_t kLongest = 100;
  return CleanText(value.dump(-1, ' ', false, Json::error_handler_t::replace),
                   {.longest_bytes = kLongest});
}

bool IsChecksum(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Reads one object and reports everything that is wrong with it.
class ManifestReader {
 public:
  ManifestReader(const Json& json, std::string file) : json_(json), file_(std::move(file)) {}

  ModelManifest Read() {
    ModelManifest manifest;
    if (!json_.is_object()) {
      Add("", Shown(json_) + "; must be a JSON object");
      return manifest;
    }
    for (FieldViolation& mistake : JsonTextMistakes(json_, "", TextLayout::kOneLine)) {
      Add(mistake.field, std::move(mistake.description));
    }
    if (!violations_.empty()) return manifest;
    Text("name", manifest.name);
    Text("program", manifest.program);
    Text("library", manifest.library);
    Text("sha256", manifest.sha256);
    Words(manifest.arguments);
    Environment(manifest.environment);
    Limits(manifest.limits);
    for (const auto& [key, value] : json_.items()) {
      if (known_.contains(key)) continue;
      Add(key, fmt::format("{}; is not a field of a manifest, which are {}", Shown(value),
                           fmt::join(known_, ", ")));
    }
    Check(manifest);
    return manifest;
  }

  [[nodiscard]] const std::vector<FieldViolation>& violations() const { return violations_; }

 private:
  void Add(const std::string& field, std::string description) {
    violations_.push_back({.field = field.empty() ? file_ : fmt::format("{}: {}", file_, field),
                           .description = std::move(description)});
  }

  const Json* Find(const char* field) {
    known_.insert(field);
    const auto found = json_.find(field);
    return found == json_.end() ? nullptr : &*found;
  }

  void Text(const char* field, std::string& out) {
    const Json* const value = Find(field);
    if (value == nullptr) return;
    if (value->is_string()) {
      out = value->get<std::string>();
    } else {
      Add(field, Shown(*value) + "; must be a string");
    }
  }

  void Words(std::vector<std::string>& out) {
    const Json* const value = Find("arguments");
    if (value == nullptr) return;
    const bool is_list = value->is_array() && std::ranges::all_of(*value, &Json::is_string);
    if (!is_list) return Add("arguments", Shown(*value) + "; must be a list of strings");
    for (const Json& word : *value) out.push_back(word.get<std::string>());
  }

  void Environment(std::map<std::string, std::string>& out) {
    const Json* const value = Find("environment");
    if (value == nullptr) return;
    if (!value->is_object()) {
      return Add("environment", Shown(*value) + "; must be an object of strings");
    }
    for (const auto& [name, text] : value->items()) {
      if (!text.is_string()) {
        Add("environment." + name, Shown(text) + "; must be a string");
      } else {
        out[name] = text.get<std::string>();
      }
    }
  }

  struct Range {
    std::int64_t least = 1;
    std::int64_t most = 1;
  };
  void Whole(const char* field, Range range, std::int64_t& out) {
    const Json* const value = Find(field);
    if (value == nullptr) return;
    // The parser takes numbers above 0 as unsigned.
    const std::uint64_t number = value->is_number_unsigned() ? value->get<std::uint64_t>() : 0;
    if (number >= static_cast<std::uint64_t>(range.least) &&
        number <= static_cast<std::uint64_t>(range.most)) {
      out = static_cast<std::int64_t>(number);
    } else {
      Add(field, fmt::format("{}; must be a whole number of at least {} and at most {}",
                             Shown(*value), range.least, range.most));
    }
  }

  void Limits(ModelLimits& limits) {
    Whole("memory_limit_bytes", {kLeastMemoryBytes, kMaxMemoryBytes}, limits.memory_bytes);
    Whole("cpu_limit_seconds", {.most = kMaxCpuSeconds}, limits.cpu_seconds);
    Whole("file_limit_bytes", {.most = kMaxFileBytes}, limits.file_bytes);
    Whole("open_file_limit", {.most = kMaxOpenFiles}, limits.open_files);
    Whole("process_limit", {.most = kMaxProcesses}, limits.processes);
    std::int64_t milliseconds = limits.batch_deadline.count();
    Whole("batch_deadline_milliseconds", {.most = kMaxDeadlineMilliseconds}, milliseconds);
    limits.batch_deadline = std::chrono::milliseconds(milliseconds);
  }

  void Check(const ModelManifest& manifest) {
    if (!IsName(manifest.name)) {
      Add("name", fmt::format("'{}'; must be lower-case letters, digits and -", manifest.name));
    }
    if (manifest.program.empty() == manifest.library.empty()) {
      Add("program", fmt::format("'{}', and library = '{}'; exactly one of the two must be stated",
                                 manifest.program, manifest.library));
    }
    if (!manifest.library.empty() && !manifest.arguments.empty()) {
      Add("arguments", Shown(manifest.arguments) + "; must be absent for a library");
    }
    if (!IsChecksum(manifest.sha256)) {
      Add("sha256", Shown(manifest.sha256) +
                        "; must be the 64 hexadecimal digits that sha256sum prints of the file");
    }
  }

  const Json& json_;
  std::string file_;
  std::set<std::string> known_;
  std::vector<FieldViolation> violations_;
};

std::string InFolder(const path& folder, const std::string& file) {
  return file.empty() ? file : (folder / file).lexically_normal().string();
}

absl::StatusOr<std::vector<path>> ManifestFiles(const std::string& folder) {
  std::error_code error;
  std::vector<path> files;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".json") files.push_back(entry->path());
  }
  if (error) {
    return absl::NotFoundError(
        fmt::format("the folder of cost models, {}: {}", folder, error.message()));
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

absl::StatusOr<std::vector<ModelManifest>> LoadManifests(const std::string& folder) {
  std::error_code error;
  const path absolute = std::filesystem::absolute(folder, error);
  ASSIGN_OR_RETURN(const std::vector<path> files, ManifestFiles(folder));
  std::vector<ModelManifest> manifests;
  std::vector<FieldViolation> violations;
  std::set<std::string> names;
  for (const path& file : files) {
    const auto refuse = [&, name = file.filename().string()](std::string why) {
      violations.push_back({.field = name, .description = std::move(why)});
    };
    if (!std::filesystem::is_regular_file(file, error)) {
      refuse("is not a regular file");
      continue;
    }
    std::ifstream in(file, std::ios::binary);
    const std::string text = RestOf(in);
    if (!in.is_open() || in.bad()) {
      refuse("cannot be read");
      continue;
    }
    Json json;
    try {
      json = Json::parse(text);
    } catch (const Json::exception& mistake) {
      refuse(mistake.what());
      continue;
    }
    ManifestReader reader(json, file.filename().string());
    ModelManifest manifest = reader.Read();
    violations.insert(violations.end(), reader.violations().begin(), reader.violations().end());
    if (!names.insert(manifest.name).second) {
      violations.push_back({.field = file.filename().string() + ": name",
                            .description = fmt::format("'{}' is taken", manifest.name)});
    }
    manifest.program = InFolder(absolute, manifest.program);
    manifest.library = InFolder(absolute, manifest.library);
    manifests.push_back(std::move(manifest));
  }
  if (!violations.empty()) return InvalidFields(violations);
  std::ranges::sort(manifests, {}, &ModelManifest::name);
  return manifests;
}

absl::StatusOr<ModelManifest> FindManifest(const std::vector<ModelManifest>& manifests,
                                           std::string_view name) {
  const auto found = std::ranges::find(manifests, name, &ModelManifest::name);
  if (found != manifests.end()) return *found;
  std::vector<std::string> names;
  names.reserve(manifests.size());
  for (const ModelManifest& manifest : manifests) names.push_back(manifest.name);
  return WithReason(absl::NotFoundError(fmt::format(
                        "cost model '{}' is not known; there are: {}", name,
                        names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")))),
                    "UNKNOWN_COST_MODEL");
}

absl::Status VerifyChecksum(const ModelManifest& manifest) {
  const std::string& file = manifest.program.empty() ? manifest.library : manifest.program;
  ASSIGN_OR_RETURN(const std::string found, FileChecksum(file));
  if (found == manifest.sha256) return absl::OkStatus();
  return WithReason(absl::FailedPreconditionError(fmt::format(
                        "cost model {}: {} has SHA-256 {}, its manifest says {}: it was changed",
                        manifest.name, file, found, manifest.sha256)),
                    "COST_MODEL_CHANGED");
}

}  // namespace meshwright
