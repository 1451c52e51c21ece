#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace meshwright {

// What a model's process may use.
struct ModelLimits {
  std::int64_t memory_bytes = std::int64_t{4} << 30;  // address space of each process
  std::int64_t cpu_seconds = 3600;                    // of each process
  std::int64_t file_bytes = 64 << 20;                 // a file that it writes
  std::int64_t open_files = 256;
  std::int64_t processes = 64;  // that run at once, where it has process ids of its own
  std::chrono::milliseconds batch_deadline{10'000};
};

// A vendor's model as the administrator has listed it: one JSON file in the folder of models.
struct ModelManifest {
  std::string name = {};     // lower-case, digits and -
  std::string program = {};  // absolute; one of the two
  std::string library = {};
  std::vector<std::string> arguments = {};  // of the program
  std::map<std::string, std::string> environment = {};
  std::string sha256 = {};  // of the program or library, lower-case hexadecimal
  ModelLimits limits = {};
};

// A folder of manifests, *.json, sorted by name. INVALID_ARGUMENT names every mistake of every
// file; NOT_FOUND: no such folder. Relative programs and libraries are the folder's. What they
// point to is not looked at yet.
absl::StatusOr<std::vector<ModelManifest>> LoadManifests(const std::string& folder);

// The manifest of a name; NOT_FOUND lists those that there are.
absl::StatusOr<ModelManifest> FindManifest(const std::vector<ModelManifest>& manifests,
                                           std::string_view name);

// FAILED_PRECONDITION: the program or library is not the one that the manifest was written for.
absl::Status VerifyChecksum(const ModelManifest& manifest);

}  // namespace meshwright
