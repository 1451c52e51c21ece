#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/space/space.h"
#include "search_space/space/space_options.h"

namespace meshwright {

// What a user leaves of a dimension of the search space: some values, or a range of numbers.
struct DimensionRequest {
  std::string name = {};  // "tensor_parallel"
  std::vector<std::string> values = {};
  std::optional<int> at_least = {};
  std::optional<int> at_most = {};
  bool operator==(const DimensionRequest&) const = default;
};

// Narrows `options`, or opens what the framework does not list where a value of it is asked for.
// Everything that is wrong with the requests, under `path`[i].
std::vector<FieldViolation> ApplyDimensions(const std::vector<DimensionRequest>& requests,
                                            std::string_view path, SpaceOptions& options);

// The names, for people: "tensor_parallel, ...".
std::string DimensionNames();

}  // namespace meshwright
