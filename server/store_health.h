#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace meshwright {

// The facts that show whether a store can still take what it is told.
struct StoreProbe {
  std::function<absl::Status()> check_file = {};                 // Engine::CheckStore
  std::function<std::optional<std::int64_t>()> free_bytes = {};  // nullopt: not known
  std::int64_t least_free_bytes = 0;
};

// Watches the store of a server. It is used by one thread.
class StoreHealth {
 public:
  // `on_change` is told when the store goes bad and when it is well again; with the reason, and
  // only once each time. A store begins well.
  StoreHealth(StoreProbe probe, std::function<void(const absl::Status&)> on_change);

  // Looks at the store.
  void Check();

 private:
  [[nodiscard]] absl::Status Look() const;

  const StoreProbe probe_;
  const std::function<void(const absl::Status&)> on_change_;
  std::string reason_ = {};  // of what is bad; empty: nothing
};

}  // namespace meshwright
