#include "server/store_health.h"

#include <fmt/format.h>

#include <utility>

#include "search_space/base/status.h"

namespace meshwright {

StoreHealth::StoreHealth(StoreProbe probe, std::function<void(const absl::Status&)> on_change)
    : probe_(std::move(probe)), on_change_(std::move(on_change)) {}

absl::Status StoreHealth::Look() const {
  RETURN_IF_ERROR(probe_.check_file());
  const auto free = probe_.free_bytes();
  if (!free.has_value() || *free >= probe_.least_free_bytes) return absl::OkStatus();
  return WithReason(
      absl::UnavailableError(fmt::format("the store's file system has {} bytes left; must be >= {} "
                                         "(--min-free-mib)",
                                         *free, probe_.least_free_bytes)),
      "STORE_NEARLY_FULL");
}

void StoreHealth::Check() {
  const absl::Status now = Look();
  std::string reason = now.ok() ? "" : Reason(now);
  if (reason == reason_) return;
  reason_ = std::move(reason);
  on_change_(now);
}

}  // namespace meshwright
