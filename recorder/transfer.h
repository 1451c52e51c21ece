#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace meshwright {

// The vocabulary of exports and imports, which take measurements from one store to another
// (docs/store.md "Export and import"): JSON lines, each an object with a "kind"; first the header
// with the version of the format, then questions, calibrations and measurements, last the number of
// lines before it and their SHA-256.

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
  kKeep,  // the store's stays
};

struct ImportOptions {
  ConflictPolicy policy = ConflictPolicy::kFail;
  bool validate_only = false;  // counts and finds every error, stores nothing
  // A run that was measured later damages the export: it would be the latest for ever.
  std::optional<std::int64_t> latest_time_ms = {};
};

struct ImportCounts {
  std::int64_t imported = 0;
  std::int64_t skipped = 0;  // in the store already, the same
  std::int64_t kept = 0;     // in the store already with other content, which stayed
};

}  // namespace meshwright
