#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/transfer.h"

namespace meshwright {

// The most that a spool takes; absent: as much as the disk does.
struct SpoolLimits {
  std::optional<std::int64_t> bytes = {};
  std::optional<std::int64_t> line_bytes = {};
};

// A file without a name, gone with its owner: between a network that takes its time and a store
// that must not wait for it, and for lines that are read twice. First written, then read from its
// start. For one thread at a time.
class Spool {
 public:
  static absl::StatusOr<Spool> Open(const SpoolLimits& limits = {});

  // RESOURCE_EXHAUSTED beyond the limit, or when the disk is full.
  absl::Status Append(std::string_view bytes);
  absl::Status Rewind();
  // Returns up to `size` bytes; none at the end.
  absl::StatusOr<std::string> Read(std::size_t size);
  // Returns the next line without its end; nullopt after the last. INVALID_ARGUMENT for one that is
  // longer than the limit.
  absl::StatusOr<std::optional<std::string>> ReadLine();
  // Returns its lines as an import reads them; valid as long as this is.
  [[nodiscard]] LineSource Lines();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  Spool(std::FILE* file, const SpoolLimits& limits) : file_(file), limits_(limits) {}

  std::unique_ptr<std::FILE, Close> file_;
  SpoolLimits limits_;
  std::int64_t size_ = 0;
};

}  // namespace meshwright
