#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "search_space/base/clean_text.h"
#include "search_space/base/status.h"

namespace meshwright {

// Returns a violation for every string and key of a JSON value, at any depth, that no edge accepts
// (TextMistake). Each has its path below `path`, such as `figures.memory.source` or
// `gemm_tiles[0]`. Keys must be one line. A value that is nested deeper than any of our files is a
// violation too.
std::vector<FieldViolation> JsonTextMistakes(const nlohmann::json& value, const std::string& path,
                                             TextLayout layout);

}  // namespace meshwright
