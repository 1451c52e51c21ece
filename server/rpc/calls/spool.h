#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace meshwright {

// A file without a name, gone with its owner, between a network that takes its time and a store
// that must not wait for it. First written, then read from its start. For one thread at a time.
class Spool {
 public:
  static absl::StatusOr<Spool> Open();

  // RESOURCE_EXHAUSTED beyond kMostBytes, because a store takes seconds for it (docs/store.md) and
  // nobody else has it meanwhile, or when the disk is full.
  absl::Status Append(std::string_view bytes);
  absl::Status Rewind();
  // Up to `size` bytes; nothing at the end.
  absl::StatusOr<std::string> Read(std::size_t size);
  // Without its line end; nothing at the end. INVALID_ARGUMENT for one of more than kMostLineBytes.
  absl::StatusOr<std::optional<std::string>> ReadLine();

  static constexpr std::int64_t kMostBytes = 64'000'000;
  static constexpr std::int64_t kMostLineBytes = 1'000'000;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  explicit Spool(std::FILE* file) : file_(file) {}

  std::unique_ptr<std::FILE, Close> file_;
  std::int64_t size_ = 0;
};

}  // namespace meshwright
