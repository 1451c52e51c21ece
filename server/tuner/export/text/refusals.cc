#include "server/tuner/export/text/refusals.h"

#include <algorithm>
#include <utility>

namespace meshwright {

void Refusals::Refuse(std::string_view field, std::string description) {
  if (std::ranges::find(refused_, field, &FieldViolation::field) != refused_.end()) return;
  refused_.push_back({.field = std::string(field), .description = std::move(description)});
}

absl::Status Refusals::Status() const {
  return refused_.empty() ? absl::OkStatus()
                          : WithReason(InvalidFields(refused_), "NOT_EXPRESSIBLE");
}

}  // namespace meshwright
