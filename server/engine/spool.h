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

// The size that a spool may reach. If absent, only the disk limits it.
struct SpoolLimits {
  std::optional<std::int64_t> bytes = {};
  std::optional<std::int64_t> line_bytes = {};
};

// A file without a name that is deleted together with its owner. It is first written, then read
// from its start. It stands between a slow network and a store that must not wait for it, and holds
// lines that are read twice. Not for use from several threads at once.
class Spool {
 public:
  static absl::StatusOr<Spool> Open(const SpoolLimits& limits = {});

  // Returns RESOURCE_EXHAUSTED beyond the limit, or if the disk is full.
  absl::Status Append(std::string_view bytes);
  absl::Status Rewind();
  // Returns up to `size` bytes; an empty string at the end.
  absl::StatusOr<std::string> Read(std::size_t size);
  // Returns the next line without its end, or nullopt after the last line. Returns INVALID_ARGUMENT
  // for a line that is longer than the limit.
  absl::StatusOr<std::optional<std::string>> ReadLine();
  // Returns the lines for an import. The result is valid as long as this spool is.
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
