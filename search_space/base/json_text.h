#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "search_space/base/clean_text.h"
#include "search_space/base/status.h"

namespace meshwright {

// Returns every string and key of a JSON value, at any depth, that no edge takes (TextMistake),
// with its path below `path` as `figures.memory.source` or `gemm_tiles[0]`. Keys have one line. A
// value that is nested deeper than any file of ours is a mistake too.
std::vector<FieldViolation> JsonTextMistakes(const nlohmann::json& value, const std::string& path,
                                             TextLayout layout);

}  // namespace meshwright
