#include "server/tuner/export/refusals.h"

#include <utility>

namespace meshwright {

void Refusals::Refuse(std::string_view field, std::string description) {
  refused_.push_back({.field = std::string(field), .description = std::move(description)});
}

absl::Status Refusals::Status() const {
  return refused_.empty() ? absl::OkStatus()
                          : WithReason(InvalidFields(refused_), "NOT_EXPRESSIBLE");
}

}  // namespace meshwright
