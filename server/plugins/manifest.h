#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace meshwright {

// Limits of a model's processes.
struct ModelLimits {
  std::int64_t memory_bytes = std::int64_t{4} << 30;  // address space of each process
  std::int64_t cpu_seconds = 3600;                    // limit of each process
  std::int64_t file_bytes = 64 << 20;                 // size of a file that it writes
  std::int64_t open_files = 256;
  std::int64_t processes = 64;  // most that run at once, if it has process ids of its own
  std::chrono::milliseconds batch_deadline{10'000};
};

// A vendor's model as the administrator lists it: one JSON file in the folder of models.
struct ModelManifest {
  std::string name = {};     // lower-case letters, digits and -
  std::string program = {};  // absolute; either this or `library`
  std::string library = {};
  std::vector<std::string> arguments = {};  // passed to the program
  std::map<std::string, std::string> environment = {};
  std::string sha256 = {};  // checksum of the program or library, in lower-case hexadecimal
  ModelLimits limits = {};
};

// Loads a folder of manifests, *.json, sorted by name. INVALID_ARGUMENT names every mistake of
// every file; NOT_FOUND if there is no such folder. Relative programs and libraries are relative to
// the folder, and are not looked at yet.
absl::StatusOr<std::vector<ModelManifest>> LoadManifests(const std::string& folder);

// Finds the manifest of a name; NOT_FOUND lists the names that there are.
absl::StatusOr<ModelManifest> FindManifest(const std::vector<ModelManifest>& manifests,
                                           std::string_view name);

// FAILED_PRECONDITION if the program or library is not the one that the manifest was written for.
absl::Status VerifyChecksum(const ModelManifest& manifest);

}  // namespace meshwright
