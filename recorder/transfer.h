#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace meshwright {

// The vocabulary of exports and imports, which carry measurements from one store to another
// (docs/store/export.md). An export is JSON lines, each an object with a "kind". The
// first is a header with the version of the format; then come questions, calibrations and
// measurements. The last line states the number of lines before it and their SHA-256.

inline constexpr int kTransferVersion = 1;

using LineSink = std::function<absl::Status(std::string_view line)>;

// The lines of an export, which an import reads twice.
struct LineSource {
  // Returns the next line without its end; nullopt after the last.
  std::function<absl::StatusOr<std::optional<std::string>>()> next = {};
  // Goes back to the first line.
  std::function<absl::Status()> rewind = {};
};

// The treatment of a measurement whose id is in the store with other content.
enum class ConflictPolicy {
  kFail,
  kKeep,  // the store's content stays
};

struct ImportOptions {
  ConflictPolicy policy = ConflictPolicy::kFail;
  bool validate_only = false;  // counts and finds every error, stores nothing
  // The latest time that a run may have. A later run would damage the history: it would be the
  // latest for ever.
  std::optional<std::int64_t> latest_time_ms = {};
};

struct ImportCounts {
  std::int64_t imported = 0;  // also measurements that were here and are retracted by the import
  std::int64_t skipped = 0;   // already in the store with the same content
  std::int64_t kept = 0;      // already in the store with other content, which stayed
};

}  // namespace meshwright
