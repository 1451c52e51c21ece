#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/transfer.h"

namespace meshwright {

// Returns a source of the lines for an import; `lines` must outlive the source.
inline LineSource SourceOf(const std::vector<std::string>& lines) {
  const auto next = std::make_shared<std::size_t>(0);
  return {.next = [&lines, next]() -> absl::StatusOr<std::optional<std::string>> {
            if (*next == lines.size()) return std::nullopt;
            return lines[(*next)++];
          },
          .rewind =
              [next] {
                *next = 0;
                return absl::OkStatus();
              }};
}

}  // namespace meshwright
