#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/space/space.h"
#include "search_space/space/space_options.h"

namespace meshwright {

// The part of a dimension that a user allows: some values, or a range of numbers.
struct DimensionRequest {
  std::string name = {};  // "tensor_parallel"
  std::vector<std::string> values = {};
  std::optional<int> at_least = {};
  std::optional<int> at_most = {};
  bool operator==(const DimensionRequest&) const = default;
};

// Narrows `options`, or opens a value that the framework does not list if the user asks for it.
// Returns every mistake in the requests, with paths under `path`[i].
std::vector<FieldViolation> ApplyDimensions(const std::vector<DimensionRequest>& requests,
                                            std::string_view path, SpaceOptions& options);

// Returns the names of all dimensions for people: "tensor_parallel, ...".
std::string DimensionNames();

}  // namespace meshwright
